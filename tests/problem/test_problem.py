"""What a problem accepts, what it refuses and how it says so."""

import jax
import numpy as np
import pytest

import engram
from engram import memory, particles

E, U, P, T = np.eye(3, 4), np.eye(2, 4), np.array([0.5, 0.25, 0.25]), np.array([0, 1, 0])


def test_it_holds_float64_whatever_it_is_given():
    for make in (np.asarray, lambda a: np.asarray(a, np.float32), lambda a: a.tolist()):
        problem = engram.Problem(make(E), make(U), make(P), T)
        assert {a.dtype for a in (problem.inputs, problem.outputs, problem.probs)} == {
            np.dtype(float)
        }
    problem = engram.Problem(*map(jax.numpy.asarray, (E, U, P, T)))
    assert isinstance(problem.inputs, np.ndarray)
    assert (problem.num_tokens, problem.num_classes, problem.dim, problem.output_dim) == (
        3,
        2,
        4,
        4,
    )
    assert problem.astype("float32").inputs.dtype == np.float32


def test_it_reads_pytorch_tensors_without_importing_torch():
    class Tensor:  # what torch offers, and no more
        def __init__(self, array):
            self.array = array

        def detach(self):
            return self

        cpu = detach

        def numpy(self):
            return self.array

    problem = engram.Problem(Tensor(E), Tensor(U), Tensor(P), Tensor(T))
    np.testing.assert_array_equal(problem.inputs, E)


class GpuTensor:
    """A half-precision tensor on a GPU that requires gradients, as torch has them."""

    def __init__(self, array, dtype, place="cuda", needs_gradient=True):
        self.array, self.dtype, self.place, self.needs = array, dtype, place, needs_gradient

    def detach(self):
        return GpuTensor(self.array, self.dtype, self.place, False)

    def cpu(self):
        return GpuTensor(self.array, self.dtype, "cpu", self.needs)

    def float(self):
        return GpuTensor(self.array, "torch.float32", self.place, self.needs)

    def numpy(self):
        if self.place != "cpu" or self.needs or self.dtype == "torch.bfloat16":
            raise TypeError("can't convert")
        return np.asarray(self.array, self.dtype.removeprefix("torch."))


@pytest.mark.parametrize("dtype", ["torch.bfloat16", "torch.float16", "torch.float64"])
def test_it_reads_half_tensors_on_a_gpu_that_require_gradients(dtype):
    third = np.asarray([0.3333, 0.3333, 0.3335]).astype(jax.numpy.bfloat16).astype(np.float32)
    problem = engram.Problem(*(GpuTensor(a, dtype) for a in (E, U)), GpuTensor(P, dtype), T)
    np.testing.assert_array_equal(problem.inputs, E)
    assert memory.loss(problem, GpuTensor(np.zeros((4, 4)), dtype)) == pytest.approx(np.log(2))
    run = engram.simulate(
        problem, engram.GradientDescent(1.0, 1), start=GpuTensor(np.eye(4), dtype)
    )
    np.testing.assert_array_equal(run.start_weights, np.eye(4))
    if dtype == "torch.bfloat16":  # sums to 1 as far as eight bits tell
        assert abs(third.sum() - 1) > 1e-4
        engram.Problem(E, U, GpuTensor(third, dtype), T)


def test_it_reads_real_pytorch_tensors():
    torch = pytest.importorskip("torch", reason="PyTorch comes with the bench extra")
    tensors = [torch.tensor(a, requires_grad=a.dtype.kind == "f") for a in (E, U, P, T)]
    problem = engram.Problem(*tensors)
    np.testing.assert_array_equal(problem.targets, T)
    for dtype in (torch.float64, torch.float16, torch.bfloat16):
        W = torch.zeros(4, 4, dtype=dtype, requires_grad=True)
        assert memory.loss(problem, W) == pytest.approx(np.log(2))


BAD = {
    "inputs not 2-D": (dict(inputs=E[0]), r"`inputs` must have shape \(N, d\), got shape \(4,\)"),
    "no inputs": (dict(inputs=E[:0]), r"`inputs` must not be empty, got shape \(0, 4\)"),
    "no outputs": (dict(outputs=U[:0]), r"`outputs` must not be empty"),
    "no dimension": (dict(inputs=E[:, :0]), r"`inputs` must not be empty, got shape \(3, 0\)"),
    "ragged": (dict(inputs=[[1.0, 2.0], [3.0]]), r"`inputs` must be an array.*rectangular"),
    "text": (dict(inputs=[["a", "b"]]), r"`inputs` must hold real numbers, got dtype <U1"),
    "complex": (dict(outputs=U + 0j), r"`outputs` must hold real numbers, got dtype complex128"),
    "booleans": (dict(inputs=E > 0), r"`inputs` must hold real numbers, got dtype bool"),
    "nan": (dict(inputs=np.where(E > 0, np.nan, E)), r"`inputs` must be finite, got nan at index"),
    "infinite": (
        dict(outputs=np.where(U > 0, U, np.inf)),
        r"`outputs` must be finite, got inf at ind",
    ),
    "one class": (dict(outputs=U[:1]), r"`outputs` must have at least two rows, got 1"),
    "negative": (dict(probs=[0.75, 0.5, -0.25]), r"must not be negative, got -0.25 at index \(2,"),
    "not normalised": (dict(probs=[0.5, 0.5, 0.1]), r"`probs` must sum to 1, got 1.1. Normalise"),
    "probs too short": (dict(probs=[0.5, 0.5]), r"one entry per input token, got 2 for 3 rows"),
    "probs nan": (dict(probs=[0.5, np.nan, 0.5]), r"`probs` must be finite, got nan"),
    "target too large": (dict(targets=[0, 2, 1]), r"must lie in 0..1, got 2 for token 1"),
    "target negative": (dict(targets=[0, -1, 1]), r"must lie in 0..1, got -1 for token 1"),
    "target not whole": (dict(targets=[0.0, 1.0, 0.5]), r"`targets` must be integers, got dtype f"),
    "targets too short": (dict(targets=[0, 1]), r"one entry per input token, got 2 for 3"),
    "targets 3-D": (dict(targets=np.zeros((1, 1, 1), int)), r"shape \(N,\) or \(N, M\)"),
    "table of wrong shape": (dict(targets=np.full((3, 3), 1 / 3)), r"\(N, M\) = \(3, 2\), got \("),
    "table off": (dict(targets=[[0.5, 0.5], [1, 0], [0.5, 0.6]]), r"each row, got 1.1 in row 2"),
    "table negative": (dict(targets=[[1.5, -0.5], [1, 0], [0, 1]]), r"not be negative, got -0.5"),
}


@pytest.mark.parametrize("case", BAD, ids=str)
def test_bad_input_gets_one_clear_error(case):
    change, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        engram.Problem(**(dict(inputs=E, outputs=U, probs=P, targets=T) | change))


def test_a_token_of_frequency_zero_is_allowed():
    problem = engram.Problem(E, U, [0.5, 0.5, 0.0], T)
    assert memory.loss(problem, np.zeros((4, 4))) == pytest.approx(np.log(2))


def test_noisy_targets_have_a_likeliest_label():
    problem = engram.Problem(E, U, P, [[0.2, 0.8], [0.5, 0.5], [1, 0]])
    assert problem.is_noisy
    np.testing.assert_array_equal(problem.labels, [1, 0, 0])
    assert problem.law.sum() == pytest.approx(1)


def test_clean_labels_decide_recall_and_do_not_change_the_loss(tmp_path):
    table = np.array([[0.6, 0.4], [0.3, 0.7], [0.9, 0.1]])
    noisy, clean = (
        engram.Problem(E, U, P, table),
        engram.Problem(E, U, P, table, clean_labels=[1, 1, 0]),
    )
    certain = engram.Problem(E, U, P, [1, 1, 0])
    W = np.random.default_rng(0).standard_normal((4, 4))
    w = particles.weights_to_scores(clean, W)
    assert clean.labels.tolist() == [1, 1, 0]
    for other, names in ((noisy, ("loss", "grad")), (certain, ("error_rate", "margins"))):
        for name in names:
            expected = getattr(memory, name)(other, W)
            np.testing.assert_array_equal(getattr(memory, name)(clean, W), expected)
            expected = getattr(particles, name)(other, w)
            np.testing.assert_array_equal(getattr(particles, name)(clean, w), expected)
    for name in ("clean.npz", "clean.nc"):
        clean.save(tmp_path / name)
        assert engram.Problem.load(tmp_path / name).clean_labels.tolist() == [1, 1, 0]
    with pytest.raises(engram.InputError, match="`clean_labels` belong to noisy targets"):
        engram.Problem(E, U, P, T, clean_labels=T)


@pytest.mark.parametrize("suffix", [".npz", ".nc"])
@pytest.mark.parametrize("noisy", [False, True])
def test_files_bring_back_the_same_bits(tmp_path, suffix, noisy):
    targets = np.random.default_rng(0).dirichlet(np.ones(2), 3) if noisy else T
    problem = engram.Problem(np.random.default_rng(1).standard_normal((3, 4)), U, P, targets)
    path = tmp_path / f"problem{suffix}"
    problem.save(path)
    back = engram.Problem.load(path)
    for name in ("inputs", "outputs", "probs", "targets"):
        np.testing.assert_array_equal(getattr(back, name), getattr(problem, name))
    assert [f.name for f in tmp_path.iterdir()] == [path.name], "no temporary file stays"


def test_unreadable_files_are_refused_and_nothing_is_unpickled(tmp_path):
    with pytest.raises(ValueError, match="is not a file"):
        engram.Problem.load(tmp_path / "absent.npz")
    with pytest.raises(ValueError, match=r"unknown ending '.txt'.*\.npz or \.nc"):
        engram.Problem(E, U, P, T).save(tmp_path / "p.txt")
    (tmp_path / "junk.npz").write_bytes(b"not a zip")
    (tmp_path / "junk.nc").write_bytes(b"not hdf5")
    np.savez(tmp_path / "other.npz", inputs=E)
    np.savez(tmp_path / "evil.npz", inputs=np.array([print], dtype=object), outputs=U)
    for name, message in {
        "junk.npz": "cannot be read",
        "junk.nc": "cannot be read",
        "other.npz": "lacks the arrays outputs, probs, targets",
        "evil.npz": "cannot be read.*pickle",
    }.items():
        with pytest.raises(ValueError, match=message):
            engram.Problem.load(tmp_path / name)
    whole = tmp_path / "whole.npz"
    engram.Problem(E, U, P, T).save(whole)
    for length in (1, 100, whole.stat().st_size - 30):
        (tmp_path / "cut.npz").write_bytes(whole.read_bytes()[:length])
        with pytest.raises(ValueError, match="cannot be read"):
            engram.Problem.load(tmp_path / "cut.npz")


def test_a_failed_write_leaves_the_old_file(tmp_path):
    from engram._files import written_whole

    path = tmp_path / "result.txt"
    path.write_text("old")

    class Boom(Exception):
        pass

    with pytest.raises(Boom), written_whole(path) as temporary:
        temporary.write_text("half")
        raise Boom
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_problems_can_be_built_and_read_inside_vmap():
    losses = lambda a: memory.loss(engram.two_tokens(a, 0.75), np.eye(2))
    with jax.enable_x64(True):
        grid = jax.numpy.linspace(-1, 1, 5)
        together = jax.vmap(losses)(grid)
        np.testing.assert_allclose(together, [losses(float(a)) for a in grid], rtol=1e-14)
