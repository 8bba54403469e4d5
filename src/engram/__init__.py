"""engram: the training dynamics of associative memories.

A memory is a matrix `W` that maps token `x` to token `argmax_y <u_y, W e_x>`. This package
implements "Learning Associative Memories with Gradient Descent" (Cabannes, Simsek, Bietti, ICML
2024). Importing it loads nothing heavy and sets no global state; names load when first used.
"""

import importlib

__version__ = "0.1.0"

# Where each public name lives. Keeping this a table keeps `engram --help` free of JAX.
_HOMES = {
    "InputError": "_checks",
    "Problem": "problem",
    "two_tokens": "problem",
    "orthonormal": "problem",
    "on_sphere": "problem",
    "gaussian": "problem",
    "from_gram": "problem",
    "one_hot": "problem",
    "simulate": "simulation",
    "compare": "simulation",
    "events": "simulation",
    "audit": "audits",
    "landscape": "planes",
    "sweep": "sweeps",
    "explore": "explorer",
    "GradientFlow": "dynamics",
    "GradientDescent": "dynamics",
    "StochasticGradientFlow": "dynamics",
    "StochasticGradientDescent": "dynamics",
    "PracticalDescent": "dynamics",
}
_MODULES = (
    "audits",
    "capacity",
    "dynamics",
    "explorer",
    "figures",
    "memory",
    "observables",
    "particles",
    "planes",
    "problem",
    "registry",
    "simulation",
    "special",
    "sweeps",
    "system",
    "theory",
    "transformer",
)

__all__ = ["__version__", *_HOMES, *_MODULES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str):
    if name in _HOMES:
        value = getattr(importlib.import_module(f"engram.{_HOMES[name]}"), name)
    elif name in _MODULES:
        value = importlib.import_module(f"engram.{name}")
    else:
        raise AttributeError(f"module 'engram' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
