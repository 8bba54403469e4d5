"""Why did it spike? A small transformer in PyTorch, recorded while it learns, and its loss spike explained.

    python examples/pytorch_spike.py --out out/pytorch_spike

The model reads the words of this project's licence. One matrix W is its memory of which word follows which;
beside it, attention reads what came before. Half-way the learning rate of W goes up for a few steps, and the
loss spikes. Needs PyTorch (`make bench` installs it); takes some ten seconds on two cores.
"""

import argparse
import re
from collections import Counter
from pathlib import Path

import torch

import engram
from engram import diagnosis

WORDS = re.compile(r"[a-z]+")


class Transformer(torch.nn.Module):
    """Embeddings, one layer of attention, one matrix of memories, and rows to score the next word with."""

    def __init__(self, num_words: int, dim: int, length: int):
        super().__init__()
        self.embed = torch.nn.Embedding(num_words, dim)
        self.position = torch.nn.Parameter(0.02 * torch.randn(length, dim))
        self.attention = torch.nn.MultiheadAttention(dim, 4, batch_first=True)
        self.memory = torch.nn.Linear(dim, dim, bias=False)
        self.unembed = torch.nn.Linear(dim, num_words, bias=False)
        torch.nn.init.normal_(self.embed.weight, std=dim**-0.5)
        torch.nn.init.normal_(self.unembed.weight, std=dim**-0.5)
        torch.nn.init.zeros_(self.memory.weight)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        e = self.embed(words)
        h = e + self.position
        hidden = torch.ones(len(self.position), len(self.position), dtype=torch.bool).triu(1)
        seen, _ = self.attention(h, h, h, attn_mask=hidden, need_weights=False)
        return self.unembed(self.memory(e) + seen)


def read_words(path: Path, least: int = 3) -> tuple[torch.Tensor, list[str]]:
    """A text as numbers, and what they stand for; words that come seldom are one."""
    found = WORDS.findall(path.read_text().lower())
    names = ["(seldom)"] + [word for word, count in Counter(found).items() if count >= least]
    number = {word: index for index, word in enumerate(names)}
    return torch.tensor([number.get(word, 0) for word in found]), names


def main(out: Path, steps: int = 200, seed: int = 0) -> diagnosis.Explanation:
    """Train, record every step, and explain."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # matrices this small are slower with more
    text, names = read_words(Path(__file__).parents[1] / "LICENSE")
    length = 16
    windows = text[: (len(text) - 1) // length * length + 1].unfold(0, length + 1, length)
    model = Transformer(len(names), dim=64, length=length)
    others = [p for name, p in model.named_parameters() if name != "memory.weight"]
    optimizer = torch.optim.SGD([{"params": [model.memory.weight]}, {"params": others}], lr=0.03)

    # What the matrix should remember: which word follows which, by the model's own embeddings.
    counts = engram.problem.count_pairs(text, len(names))
    problem = engram.Problem.from_embeddings(
        model.embed.weight, model.unembed.weight, counts=counts, names=names
    )
    recorder = engram.Recorder.of(problem, store=out / "recording.zarr", overwrite=True)
    for step in range(steps):
        is_bump = steps // 2 <= step < steps // 2 + 6
        optimizer.param_groups[0]["lr"] = rate = 300.0 if is_bump else 10.0
        scores = model(windows[:, :-1])
        loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), windows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        recorder.record(
            step, model.memory.weight, loss=loss, grad=model.memory.weight.grad, learning_rate=rate,
            inputs=model.embed.weight, outputs=model.unembed.weight,
        )  # fmt: skip
        optimizer.step()
    return diagnosis.explain(recorder.dataset(), most=1)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--out", type=Path, default=Path("out/pytorch_spike"))
    folder = options.parse_args().out
    explanation = main(folder)
    print(explanation)
    if explanation.spikes:
        explanation.plot().savefig(folder / "spike.png", dpi=150)
