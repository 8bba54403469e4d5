"""Problems of a text or of counts: frequencies, likeliest followers, names, and clear refusals."""

import collections
import re

import numpy as np
import pytest

import engram
from engram._checks import InputError
from engram.problem import _text

TEXT = "It was the best of times, it was the worst of times: it's 1859."


def test_a_text_makes_a_heavy_tailed_problem(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("abababac")
    problem = engram.from_text(path, 5, targets="conditional")
    assert problem.names == problem.class_names == ("a", "b", "c")
    np.testing.assert_allclose(problem.probs, [4 / 7, 3 / 7, 0])
    # After `a` comes `b` three times of four; nothing follows `c`, which gets the law of all that follow.
    np.testing.assert_allclose(
        problem.targets, [[0, 3 / 4, 1 / 4], [1, 0, 0], [3 / 7, 3 / 7, 1 / 7]]
    )
    assert problem.labels.tolist() == [1, 0, 0]
    certain = engram.from_text(path, 5)
    assert not certain.is_noisy
    assert certain.labels.tolist() == [1, 0, 0]
    np.testing.assert_array_equal(certain.inputs, problem.inputs)
    plays = engram.from_text(dim=8, top=20)
    assert plays.num_tokens == plays.num_classes == 20
    assert (np.diff(plays.probs) <= 0).all()


@pytest.mark.parametrize("unit", ["characters", "words", "bytes"])
@pytest.mark.parametrize("piece", [1, 2, 7, 2**20])
def test_pieces_do_not_matter(unit, piece, monkeypatch, tmp_path):
    text = "Ein Wort, zwölf Wörter – it's\na word ’tis\t" * 3 + "Ende"
    (tmp_path / "t.txt").write_text(text, encoding="utf-8")
    monkeypatch.setattr(_text, "_PIECE", piece)
    for source in (text, tmp_path / "t.txt", str(tmp_path / "t.txt")):
        found = _text.count_followers(source, unit)
        split = {
            "characters": list(text),
            "words": re.findall(r"\w+(?:['’]\w+)*|[^\w\s]", text),
            "bytes": [chr(b) if 32 < b < 127 else f"\\x{b:02x}" for b in text.encode()],
        }[unit]
        counted = collections.Counter(zip(split, split[1:], strict=False))
        names = found.tokens
        pairs = zip(found.first, found.second, found.counts, strict=True)
        assert {(names[a], names[b]): n for a, b, n in pairs} == counted
        often = [collections.Counter(split[:-1])[name] for name in names]
        assert often == sorted(often, reverse=True)


def test_words_keep_their_apostrophes_and_marks_stand_alone():
    problem = engram.from_text(TEXT, 4, tokens="words")
    assert "it's" in problem.names
    assert "," in problem.names
    called = dict(zip(problem.names, problem.labels, strict=True))
    assert problem.names[called["best"]] == "of"
    assert problem.probs.sum() == pytest.approx(1)


def test_top_counts_pairs_among_the_kept_only():
    problem = engram.from_text("aabbaabbaaccz", 3, top=2, targets="conditional")
    assert problem.names == ("a", "b")
    # aa ab bb ba aa ab bb ba aa: a five times first, b four times.
    np.testing.assert_allclose(problem.probs, [5 / 9, 4 / 9])
    np.testing.assert_allclose(problem.targets, [[3 / 5, 2 / 5], [1 / 2, 1 / 2]])


def test_ties_go_to_the_more_frequent_token():
    problem = engram.from_text("xaxbxaxbaaa", 3)
    assert problem.names[0] == "a"
    assert problem.names[problem.labels[problem.names.index("x")]] == "a"


def test_counts_pose_what_the_model_sees():
    table = np.array([[3, 1, 0], [0, 0, 0], [2, 2, 4]])
    problem = engram.from_counts(table, 4, names=("a", "b", "c"), targets="conditional")
    np.testing.assert_allclose(problem.probs, [4 / 12, 0, 8 / 12])
    np.testing.assert_allclose(
        problem.targets, [[3 / 4, 1 / 4, 0], [5 / 12, 3 / 12, 4 / 12], [1 / 4, 1 / 4, 1 / 2]]
    )
    certain = engram.from_counts(table, 4)
    assert certain.labels.tolist() == [0, 0, 2]
    own = engram.from_counts([5, 3, 2], inputs=np.eye(3), names=("x", "y", "z"))
    assert own.labels.tolist() == [0, 1, 2]
    assert own.class_names == ("x", "y", "z")
    np.testing.assert_array_equal(own.outputs, np.eye(3))


def test_a_csv_file_names_tokens_and_classes(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('token,red,"dark, blue"\napple,5,1\nsky,,9\n', encoding="utf-8")
    problem = engram.from_counts(path, 3)
    assert problem.names == ("apple", "sky")
    assert problem.class_names == ("red", "dark, blue")
    assert problem.labels.tolist() == [0, 1]
    np.testing.assert_allclose(problem.probs, [6 / 15, 9 / 15])
    path.write_text("token,count\napple,5\nsky,3\n", encoding="utf-8")
    assert engram.from_counts(path, 3).class_names == ("apple", "sky")


def test_names_reach_the_dataset():
    problem = engram.from_text(TEXT, 4, tokens="words", top=3)
    run = engram.simulate(problem, engram.GradientDescent(1.0, 3))
    assert run.token.values.tolist() == [*problem.names]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"text": "nosuch.txt"}, "cannot be read"),
        ({"text": "aaaa"}, "at least 2"),
        ({"text": "abc", "top": 4}, "at most 3"),
        ({"text": "abc", "top": 1}, "at least 2"),
        ({"text": "abc", "tokens": "letters"}, "characters"),
        ({"text": "abc", "targets": "likeliest"}, "conditional"),
        ({"text": "abc", "dim": None}, "`dim` is missing"),
        ({"text": "abc", "inputs": np.eye(3)}, "embeddings too"),
        ({"text": "abc", "dim": None, "inputs": np.eye(2)}, "one row for each of the 3"),
        ({"text": "abc", "dim": None, "outputs": np.eye(3)}, "`inputs` is missing"),
    ],
)
def test_what_makes_no_sense_is_refused(given, said):
    with pytest.raises(InputError, match=said):
        engram.from_text(**{"dim": 3} | given)


def test_bytes_that_are_no_text_are_refused_unless_asked_for(tmp_path):
    (tmp_path / "b").write_bytes(b"\xff\xfe\x00ab")
    with pytest.raises(InputError, match="UTF-8"):
        engram.from_text(tmp_path / "b", 2)
    problem = engram.from_text(tmp_path / "b", 2, tokens="bytes")
    assert set(problem.names) == {r"\xff", r"\xfe", r"\x00", "a", "b"}


@pytest.mark.parametrize("content", ["", "token\n", "token,a,b\nx,1\n", "token,a\nx,one\n"])
def test_other_files_of_counts_are_refused(tmp_path, content):
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(InputError, match="counts"):
        engram.from_counts(tmp_path / "t.csv", 3)
    with pytest.raises(InputError, match="cannot be read"):
        engram.from_counts(tmp_path / "no.csv", 3)


@pytest.mark.parametrize("counts", [[[-1, 2]], [[0, 0]], [[np.nan, 1]], [["a", "b"]], [[[1]]]])
def test_other_counts_are_refused(counts):
    with pytest.raises(InputError, match="counts"):
        engram.from_counts(counts, 3)


def test_specs_and_sweeps_read_texts(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text(TEXT)
    table = {"family": "text", "path": str(path), "unit": "words", "top": 4, "dim": 3}
    spec = {
        "problem": table,
        "dynamics": {"kind": "gd", "steps": 3},
        "sweep": {"observables": ["final_loss"]},
        "axes": {"learning_rate": [0.5, 1.0]},
    }
    found = engram.sweep(spec, store=tmp_path / "s.zarr")
    problem = engram.from_text(path, 3, tokens="words", top=4)
    for rate, loss in zip((0.5, 1.0), found.final_loss.values, strict=True):
        run = engram.simulate(problem, engram.GradientDescent(rate, 3))
        assert loss == pytest.approx(run.loss[-1].item(), rel=1e-13)  # a few sums in another order
    path.write_text(TEXT + " And more.")
    with pytest.raises(InputError, match="problem.path"):
        engram.sweep(spec, store=tmp_path / "s.zarr")
    # A name that is not there is a fault, never a text of a few letters.
    with pytest.raises(InputError, match="cannot be read"):
        engram.simulate(table | {"path": "absent"}, engram.GradientDescent(1.0, 3))


GLOVE = "the 1 0\nof 0 1\nworst 0.5 -0.5\nwas 2 1e-1\n"


@pytest.mark.parametrize("header", ["", "4 2\n"])
def test_vectors_of_words_pose_a_problem(tmp_path, header):
    (tmp_path / "v.txt").write_text(header + GLOVE)
    vectors = engram.read_vectors(tmp_path / "v.txt")
    assert vectors.names == ("the", "of", "worst", "was")
    problem = engram.from_text(
        "the worst of the worst was best the of", inputs=vectors, tokens="words"
    )
    assert set(problem.names) == {"the", "of", "worst", "was"}
    np.testing.assert_array_equal(problem.inputs, vectors.of(problem.names))
    np.testing.assert_array_equal(problem.outputs, problem.inputs)
    assert engram.read_vectors(tmp_path / "v.txt", only=["was"]).rows.tolist() == [[2, 0.1]]


def test_arrays_of_files_are_vectors(tmp_path):
    rows = np.arange(6.0).reshape(3, 2)
    np.save(tmp_path / "v.npy", rows.astype("float32"))
    np.savez(tmp_path / "one.npz", rows=rows, bias=np.ones(3))
    np.savez(tmp_path / "two.npz", rows=rows, other=rows)
    for name in ("v.npy", "one.npz"):
        np.testing.assert_array_equal(engram.read_vectors(tmp_path / name).rows, rows)
    np.testing.assert_array_equal(engram.read_vectors(tmp_path / "two.npz", "other").rows, rows)
    with pytest.raises(InputError, match="which of 2 matrices"):
        engram.read_vectors(tmp_path / "two.npz")
    vectors = engram.read_vectors(tmp_path / "v.npy")
    problem = engram.from_counts([3, 2, 1], inputs=vectors)
    np.testing.assert_array_equal(problem.outputs, rows)
    with pytest.raises(InputError, match="one row for each of the 2"):
        engram.from_counts([3, 2], inputs=vectors)


@pytest.mark.parametrize("content", ["", "4 2\n", "a 1 2\nb 1\n", "a 1 x\n", "a 1 nan\n", "a\n"])
def test_other_texts_of_vectors_are_refused(tmp_path, content):
    (tmp_path / "v.txt").write_text(content)
    with pytest.raises(InputError, match="v.txt"):
        engram.read_vectors(tmp_path / "v.txt")


def test_hostile_vectors_are_refused(tmp_path):
    np.save(tmp_path / "o.npy", np.array([[print]]), allow_pickle=True)
    (tmp_path / "b.npy").write_bytes(b"garbage")
    (tmp_path / "b.txt").write_bytes(b"\xff\xfe")
    for name in ("o.npy", "b.npy", "b.txt", "absent.txt", "absent.npy", "absent.npz"):
        with pytest.raises(InputError, match=name.partition(".")[0]):
            engram.read_vectors(tmp_path / name)
    (tmp_path / "v.txt").write_text(GLOVE)
    with pytest.raises(InputError, match="no vectors of these names"):
        engram.read_vectors(tmp_path / "v.txt", only=["absent"])
    vectors = engram.read_vectors(tmp_path / "v.txt")
    with pytest.raises(InputError, match="have no vector: 'b'"):
        engram.from_counts([1, 2], names=("the", "b"), inputs=vectors)
