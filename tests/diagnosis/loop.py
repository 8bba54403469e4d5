"""A training loop in PyTorch as people write them: checkpoints, a recorder, and nothing else of engram.

python loop.py FOLDER STEPS
"""

import sys
from pathlib import Path

import torch

import engram


def main(folder: Path, steps: int) -> None:
    torch.manual_seed(0)
    inputs = torch.nn.functional.normalize(torch.randn(20, 8))
    outputs = torch.nn.functional.normalize(torch.randn(10, 6))
    targets = torch.arange(20) % 10
    model = torch.nn.Linear(8, 6, bias=False).to(torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=4.0, momentum=0.5)
    step, checkpoint = 0, folder / "checkpoint.pt"
    if checkpoint.exists():
        step, weights, memory = torch.load(checkpoint)
        model.load_state_dict(weights)
        optimizer.load_state_dict(memory)
    recorder = engram.Recorder(inputs, outputs, targets, store=folder / "loop.zarr")
    while step < steps:
        scores = model(inputs.bfloat16()) @ outputs.bfloat16().T
        loss = torch.nn.functional.cross_entropy(scores.float(), targets)
        optimizer.zero_grad()
        loss.backward()
        recorder.record(step, model.weight, loss=loss, grad=model.weight.grad, learning_rate=4.0)
        optimizer.step()
        step += 1
        if step % 25 == 0:
            torch.save((step, model.state_dict(), optimizer.state_dict()), folder / "new.pt")
            (folder / "new.pt").replace(checkpoint)


main(Path(sys.argv[1]), int(sys.argv[2]))
