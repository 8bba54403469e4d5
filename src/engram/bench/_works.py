"""The works that are timed, in the order in which they are listed."""

from engram.bench import _dynamics, _memory, _transformer

WORKS = {work.name: work for work in [*_memory.WORKS, *_dynamics.WORKS, *_transformer.WORKS]}
