"""Names of tokens and classes: shown everywhere, seen by no program."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import equinox as eqx
import jax
import numpy as np
import pytest
import xarray as xr

import engram
from engram import memory
from engram.planes import error_regions
from engram.problem._names import show_name

PLACES = ("Paris", "Rome", "Oslo")
LANDS = ("France", "Italy")
BARE = dict(
    inputs=np.eye(3, 4), outputs=np.eye(2), probs=[0.5, 0.25, 0.25], targets=np.array([0, 1, 0])
)


def named(names=PLACES, class_names=LANDS, **change):
    return engram.Problem(**(BARE | change), names=names, class_names=class_names)


def names_of(problem):
    return problem.names, problem.class_names


def test_names_are_kept_as_strings():
    for kind in (tuple, list, np.array):
        assert names_of(named(kind(PLACES), kind(LANDS))) == (PLACES, LANDS)
    assert names_of(engram.Problem(**BARE)) == (None, None)
    assert names_of(named(class_names=None)) == (PLACES, None)
    assert all(type(name) is str for name in named(np.array(PLACES)).names)


BAD = {
    "one string": (dict(names="abc"), r"`names` must be a list of strings, got 'abc'. Give 3"),
    "too few": (
        dict(names=("a", "b")),
        r"`names` must have one entry per input token, got 2 for 3",
    ),
    "numbers": (dict(class_names=[1, 2]), r"`class_names` must be strings, got 1 at index 0"),
    "twice": (dict(class_names=["a", "a"]), r"`class_names` must differ, got 'a' twice"),
    "empty": (dict(names=("a", "", "b")), r"text that a file can hold, got '' at index 1"),
    "NUL": (dict(names=("a", "b\0", "c")), r"text that a file can hold, got 'b\\x00' at index 1"),
    "half a pair": (dict(names=("a", "b", "\ud800")), r"text that a file can hold, got '\\ud800'"),
    "a number": (dict(names=3), r"`names` must be a list of strings, got 3"),
}


@pytest.mark.parametrize("case", BAD, ids=str)
def test_unusable_names_are_refused(case):
    change, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        named(**change)


@pytest.mark.parametrize("suffix", [".npz", ".nc"])
def test_files_keep_names(tmp_path, suffix):
    odd = (" the", "naïve\n", "日本")
    path = tmp_path / f"p{suffix}"
    for names, class_names in ((odd, LANDS), (odd, None), (None, LANDS), (None, None)):
        named(names, class_names).save(path)
        assert names_of(engram.Problem.load(path)) == (names, class_names)


def test_files_whose_names_are_not_strings_are_refused(tmp_path):
    np.savez(tmp_path / "p.npz", **BARE, names=np.arange(3))
    with pytest.raises(ValueError, match="`names` must be strings, got 0"):
        engram.Problem.load(tmp_path / "p.npz")


def test_copies_keep_names():
    problem = named()
    moved = eqx.tree_at(lambda p: p.inputs, problem, 2 * problem.inputs)
    mapped = jax.tree.map(lambda leaf: leaf + 0, problem)
    sent = pickle.loads(pickle.dumps(problem))
    with ThreadPoolExecutor(1) as other:
        there = other.submit(problem.astype, "float32").result()
    for each in (problem.astype("float32"), there, moved, mapped, sent, copy.deepcopy(problem)):
        assert names_of(each) == (PLACES, LANDS)
    assert eqx.tree_equal(problem, engram.Problem(**BARE))  # labels, not data
    assert len(jax.tree.leaves(problem)) == 4


def test_programs_are_shared_between_problems_of_other_names():
    others = [named(), named(("x", "y", "z"), ("0", "1")), engram.Problem(**BARE)]
    descent, options = engram.GradientDescent(1.0, 10), {"record": ("loss", "scores")}
    compiled = []
    listener = lambda event, duration, **_: compiled.append(event)
    jax.monitoring.register_event_duration_secs_listener(listener)
    traces = lambda: [event for event in compiled if "trace" in event or "compile" in event]

    def use(problem):
        memory.loss(problem, problem.zero_weights)
        engram.simulate(problem, engram.GradientFlow([0.0, 1.0]), **options)
        return engram.simulate(problem, descent, **options)

    try:
        first = use(others[0])
        assert traces()  # so this does see what is compiled
        compiled.clear()
        runs = [first, *map(use, others[1:])]
        assert traces() == []
    finally:
        jax.monitoring.clear_event_listeners()
    assert [run.token.values.tolist() for run in runs] == [[*PLACES], ["x", "y", "z"], [0, 1, 2]]
    assert [run["class"].values.tolist() for run in runs] == [[*LANDS], ["0", "1"], [0, 1]]


@pytest.mark.usefixtures("x64")
def test_results_of_shared_programs_never_carry_another_problems_names():
    programs = {
        "jit": jax.jit(lambda p: p),
        "filter_jit": eqx.filter_jit(lambda p: p),
        "vmap": lambda p: jax.vmap(lambda scale: eqx.tree_at(lambda q: q.inputs, p, scale * p.inputs))(
            np.ones(2)
        ),
        "scan": lambda p: jax.lax.scan(lambda q, _: (q, None), jax.device_put(p), None, 2)[0],
    }  # fmt: skip
    for name, program in programs.items():
        for problem in (named(), named(("x", "y", "z"), None)):
            back = program(problem)
            assert names_of(back) in ((None, None), names_of(problem)), name
    assert names_of(programs["jit"](named())) == (None, None)


def test_datasets_are_labelled_with_names_and_keep_token_numbers():
    run = engram.simulate(named(), engram.GradientDescent(1.0, 3), record=("margins", "scores"))
    one = run.scores.sel(token="Rome", **{"class": "Italy"})
    np.testing.assert_array_equal(one, run.scores[:, 1, 1])
    np.testing.assert_array_equal(run.token_index, [0, 1, 2])
    np.testing.assert_array_equal(
        run.margins[:, run.token_index == 2], run.margins.sel(token=["Oslo"])
    )
    np.testing.assert_array_equal(run["class"][run.target], ["France", "Italy", "France"])
    bare = engram.simulate(engram.Problem(**BARE), engram.GradientDescent(1.0, 3))
    np.testing.assert_array_equal(bare.margins[:, bare.token == 2], run.margins[:, 2:])
    assert "token_index" not in bare.coords
    paths = engram.compare(named(), {"a": engram.GradientDescent(1.0, 3)}, num=3)
    assert paths.margins.sel(token="Oslo").dims == ("dynamics", "time")
    for space in ("particles", "margins"):
        other = engram.simulate(named(), engram.GradientDescent(1.0, 3), space=space)
        assert other.token.values.tolist() == [*PLACES]


def test_regions_of_the_plane_are_labelled_with_names():
    flat = {"inputs": np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])}
    assert error_regions(named(**flat)).is_right.sel(token="Oslo").dims == ("sector",)
    assert "token" not in error_regions(engram.Problem(**(BARE | flat))).coords


def test_shown_names_are_short_and_without_control_characters():
    assert show_name("Paris") == "Paris"
    assert show_name("a\nb\x1b[31m") == r"a\nb\x1b[31m"
    assert "\u202e" not in show_name("\u202egnp.exe")
    assert len(show_name("\x00" * 10**6)) == len(show_name("x" * 10**6)) == 40
    assert named().shown_names() == [*PLACES]
    assert engram.Problem(**BARE).shown_names() == ["0", "1", "2"]


def test_a_run_in_a_file_keeps_names(tmp_path, here):
    flat = np.array([[1.0, 0.0], [0.9, 0.4], [-0.9, 0.5]])
    problem = named(("Rome [bold]", "$x_1$", "_"), inputs=flat, probs=[0.6, 0.3, 0.1])
    problem.save(tmp_path / "p.npz")
    options = ("-r", 40, "-t", 60, "--out", tmp_path / "run.nc", "--plot", tmp_path / "run.png")
    first = here("simulate", "--problem-file", tmp_path / "p.npz", *options)
    assert first.returncode == 0, first.stderr
    assert "token Rome [bold]" in first.stdout, first.stdout
    with xr.open_dataset(tmp_path / "run.nc", engine="h5netcdf") as run:
        assert run.token.values.tolist() == [*problem.names]
    again = here("simulate", tmp_path / "run.nc")
    assert again.returncode == 0, again.stderr
    assert "bit for bit" in again.stdout
    assert (
        again.stdout.splitlines()[:-1]
        == first.stdout.splitlines()[: len(again.stdout.splitlines()) - 1]
    )


def test_pictures_show_names_in_the_legend():
    problem = named(("Rome", "$x_1$", "_"))
    run = engram.simulate(problem, engram.GradientDescent(1.0, 5))
    figure = engram.plot(run)
    labels = [text.get_text() for text in figure.axes[2].get_legend().get_texts()]
    assert labels == ["token Rome", r"token \$x_1\$", "token _"]
    figure.savefig("/dev/null", format="png")


def test_sweeps_and_their_stores_keep_names(tmp_path):
    from engram.sweeps import open_sweep

    named(("Rome", "$x$", "_")).save(tmp_path / "p.npz")
    spec = {
        "problem": {"family": "file", "path": str(tmp_path / "p.npz")},
        "dynamics": {"kind": "gd", "steps": 10},
        "sweep": {"observables": ["final_loss", "final_margins"]},
        "axes": {"learning_rate": [0.5, 1.0]},
    }
    engram.sweep(spec, store=tmp_path / "s.zarr")
    for found in (engram.sweep(spec), open_sweep(tmp_path / "s.zarr")):
        assert found.token.values.tolist() == ["Rome", "$x$", "_"]
        figure = engram.plot(found, value="final_margins", x="learning_rate", y="token")
        ticks = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
        assert ticks == ["Rome", r"\$x\$", "_"]
        figure.savefig("/dev/null", format="png")
        figure = engram.plot(found, value="final_margins", at={"token": 1.0})
        assert figure.get_label() == r"token = \$x\$"
