"""All benchmarks, in the order in which they are listed."""

from engram.bench import _cold, _curvature, _dynamics, _memory, _transformer

_SUBJECTS = (_dynamics, _memory, _curvature, _transformer, _cold)
BENCHMARKS = {each.name: each for subject in _SUBJECTS for each in subject.BENCHMARKS}
