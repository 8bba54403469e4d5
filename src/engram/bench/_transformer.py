"""Steps of the transformer beside plain PyTorch: all three matrices, and W_O^2 alone."""

import functools
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from engram.bench._harness import Benchmark, Side, seconds
from engram.bench._peers import AUTOGRAD
from engram.bench._process import peak_bytes, run_apart
from engram.bench._torch import NoPeer, load_torch
from engram.transformer import (
    MATRICES,
    Config,
    Model,
    Passes,
    Regression,
    Sequences,
    bigram_task,
    make_model,
    shakespeare,
    use_devices,
)

_SEQUENCES = 64
_TYPICAL = 77  # positions that count, on average, of 256


def _torch_step(model: Model, sequences: Sequences, trained: tuple[str, ...]) -> Side:
    """One full-batch gradient by autograd, in batches of the size that is fastest here."""
    torch = load_torch()
    names = ("wk1", "wv1", "wo1", "wk2", "wv2", "wo2")
    W = {name: torch.tensor(np.asarray(model[name])) for name in names}
    W_E, W_P, W_U = (torch.tensor(np.asarray(x)) for x in (model.W_E, model.W_P, model.W_U))
    for name in trained:
        W[name].requires_grad_(True)
    z, y = (torch.tensor(x.astype(np.int64)) for x in (sequences.inputs, sequences.targets))
    in_loss = torch.tensor(sequences.in_loss)
    hidden = ~torch.tril(torch.ones(z.shape[1], z.shape[1], dtype=torch.bool))
    total = in_loss.sum()

    def attend(h: Any, k: int) -> Any:
        scores = model.score_scale * h @ (h @ W[f"wk{k}"].T).transpose(1, 2)
        pattern = torch.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1)
        return pattern @ (h @ W[f"wv{k}"].T) @ W[f"wo{k}"].T

    def step(size: int) -> None:
        for name in trained:
            W[name].grad = None
        for tokens, targets, where in zip(*(x.split(size) for x in (z, y, in_loss)), strict=True):
            h = W_E[tokens] + W_P
            h = h + attend(h, 1)
            h = h + attend(h, 2)
            logits = h[where] @ W_U.T
            loss = torch.nn.functional.cross_entropy(logits, targets[where], reduction="sum")
            (loss / total).backward()

    steps = [functools.partial(step, size) for size in (4, 8, 16, 32)]
    best = min(steps, key=lambda step: (step(), seconds(step))[1])  # warm
    return Side(best, len(sequences.tokens))


def _data(dim: int, num: int) -> tuple[Model, Sequences]:
    config = Config(dim=dim, sequences=num)
    sequences = bigram_task(config)
    return make_model(config, sequences.num_tokens), sequences


def _drawing() -> Iterator[Side]:
    """Sequences of the task, and the same law token by token."""
    law, length, num = shakespeare(), 256, 2
    triggers, rng = set(law.most_frequent(5).tolist()), np.random.default_rng(0)
    follow = law.transitions

    def token_by_token() -> None:
        for _ in range(num):
            outputs = {trigger: int(rng.integers(64)) for trigger in triggers}
            tokens = [int(rng.choice(64, p=law.unigram))]
            for _ in range(length):
                z = tokens[-1]
                tokens.append(outputs[z] if z in triggers else int(rng.choice(64, p=follow[z])))

    yield Side(lambda: bigram_task(Config(sequences=4096)), 4096)
    yield Side(token_by_token, num)


def _regression(model: Model, sequences: Sequences) -> Regression:
    return Regression(Passes(model, sequences, ("wo2",), whole=False))


def _state(model: Model) -> dict[str, Any]:
    return {name: model[name] for name in MATRICES}


def _step(dim: int) -> Iterator[Side]:
    model, sequences = _data(dim, _SEQUENCES)
    passes, state = Passes(model, sequences, MATRICES, compiled=True), _state(model)
    yield Side(lambda: passes.measure(state), _SEQUENCES)
    yield _torch_step(model, sequences, MATRICES)


def _alone(dim: int) -> Iterator[Side]:
    model, sequences = _data(dim, 4 * _SEQUENCES)
    regression, state = _regression(model, sequences), {"wo2": model["wo2"][None]}
    yield Side(lambda: regression.measure_all(state), 4 * _SEQUENCES)
    yield _torch_step(model, sequences, ("wo2",))


def _paper_scale() -> Iterator[Side]:
    def run() -> str:
        times = run_apart("engram.bench._transformer")
        return (
            f"W_O^2 alone {times['alone']:.2f} s a step, all three matrices {times['all']:.1f} s; "
            f"peak {times['peak'] / 2**30:.2f} GiB"
        )

    yield Side(run)
    raise NoPeer("too slow to time here")


def main() -> None:
    """One step at the paper's scale, of W_O^2 alone and of all three, printed as JSON."""
    use_devices()
    model, sequences = _data(64, 16_384)
    state = {"wo2": model["wo2"][None]}
    alone = functools.partial(_regression(model, sequences).measure_all, state)
    alone()
    times = {"alone": seconds(alone)}
    del alone
    everything = functools.partial(
        Passes(model, sequences, MATRICES, compiled=True).measure, _state(model)
    )
    times |= {"all": seconds(everything), "peak": peak_bytes()}
    print(json.dumps(times))  # noqa: T201  read by the caller


def _flops(d: int, N: int = 64, T: int = 256, Q: int = _TYPICAL) -> float:
    """Products that a gradient in all three matrices needs, of what causality and the loss leave."""
    first = 2 * T * (T + 1) * d  # reading, and again for the gradient: scores come from tables
    second = 6 * Q * T * d + 3 * 2 * Q * d * d  # keys up to each position: half of them
    return float(first + second + 5 * 2 * Q * N * d + 2 * T * d * d)


def _alone_flops(d: int, N: int = 64, Q: int = _TYPICAL) -> float:
    return float(2 * 2 * Q * N * d)


def _exps(N: int = 64, T: int = 256, Q: int = _TYPICAL) -> float:
    return T * T / 2 + Q * T / 2 + Q * N


BENCHMARKS = [
    *(
        Benchmark(
            f"transformer-{d}", f"gradient in all three matrices, d = {d}, T = 256, float32, per sequence",
            functools.partial(_step, d), AUTOGRAD, "float32", _flops(d), _exps(), repeats=15,
        )
        for d in (64, 128)
    ),
    Benchmark(
        "sequences", "draw a sequence of 256 of the bigram task", _drawing, "NumPy, token by token",
        repeats=9,
    ),
    Benchmark(
        "transformer-wo2", "gradient in W_O^2 alone, d = 64, T = 256, float32, per sequence",
        functools.partial(_alone, 64), AUTOGRAD, "float32", _alone_flops(64), _TYPICAL * 64, repeats=15,
    ),
    Benchmark(
        "transformer-paper",
        "both kinds of step on 16,384 sequences of 256, d = 64, with all that comes before",
        _paper_scale, repeats=1, warm_up=False,
    ),
]  # fmt: skip

if __name__ == "__main__":
    main()
