"""The works that are timed, in the order in which they are listed."""

from engram.bench import _cold, _curvature, _dynamics, _memory, _transformer

_MODULES = (_dynamics, _memory, _curvature, _transformer, _cold)
WORKS = {work.name: work for module in _MODULES for work in module.WORKS}
