"""engram: the training dynamics of associative memories.

A memory is a matrix `W` that maps token `x` to token `argmax_y <u_y, W e_x>`. This package
implements "Learning Associative Memories with Gradient Descent" (Cabannes, Simsek, Bietti, ICML
2024). Importing it loads nothing heavy and sets no global state; names load when first used.
"""

import gc
import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:  # what type checkers and editors see; a test compares it with the tables below
    from engram import audits as audits
    from engram import capacity as capacity
    from engram import diagnosis as diagnosis
    from engram import dynamics as dynamics
    from engram import explorer as explorer
    from engram import figures as figures
    from engram import memory as memory
    from engram import observables as observables
    from engram import particles as particles
    from engram import pictures as pictures
    from engram import planes as planes
    from engram import problem as problem
    from engram import registry as registry
    from engram import simulation as simulation
    from engram import special as special
    from engram import studies as studies
    from engram import sweeps as sweeps
    from engram import system as system
    from engram import systems as systems
    from engram import theory as theory
    from engram import transformer as transformer
    from engram._cache import use_cache as use_cache
    from engram._devices import use_devices as use_devices
    from engram._errors import InputError as InputError
    from engram.audits import audit as audit
    from engram.diagnosis import Recorder as Recorder
    from engram.diagnosis import analyse as analyse
    from engram.diagnosis import open_recording as open_recording
    from engram.diagnosis import probe as probe
    from engram.dynamics import GradientDescent as GradientDescent
    from engram.dynamics import GradientFlow as GradientFlow
    from engram.dynamics import PracticalDescent as PracticalDescent
    from engram.dynamics import StochasticGradientDescent as StochasticGradientDescent
    from engram.dynamics import StochasticGradientFlow as StochasticGradientFlow
    from engram.explorer import explore as explore
    from engram.pictures import plot as plot
    from engram.planes import landscape as landscape
    from engram.problem import Problem as Problem
    from engram.problem import from_counts as from_counts
    from engram.problem import from_gram as from_gram
    from engram.problem import from_text as from_text
    from engram.problem import gaussian as gaussian
    from engram.problem import on_sphere as on_sphere
    from engram.problem import one_hot as one_hot
    from engram.problem import orthonormal as orthonormal
    from engram.problem import read_vectors as read_vectors
    from engram.problem import two_tokens as two_tokens
    from engram.simulation import When as When
    from engram.simulation import compare as compare
    from engram.simulation import events as events
    from engram.simulation import simulate as simulate
    from engram.studies import study as study
    from engram.sweeps import sweep as sweep

# Where each public name lives. Keeping this a table keeps `engram --help` free of JAX.
_NAMES = {
    "_cache": ["use_cache"],
    "_devices": ["use_devices"],
    "_errors": ["InputError"],
    "audits": ["audit"],
    "diagnosis": ["Recorder", "analyse", "open_recording", "probe"],
    "dynamics": [
        "GradientDescent",
        "GradientFlow",
        "PracticalDescent",
        "StochasticGradientDescent",
        "StochasticGradientFlow",
    ],
    "explorer": ["explore"],
    "pictures": ["plot"],
    "planes": ["landscape"],
    "problem": [
        "Problem", "from_counts", "from_gram", "from_text", "gaussian", "on_sphere", "one_hot", "orthonormal",
        "read_vectors", "two_tokens",
    ],
    "simulation": ["When", "compare", "events", "simulate"],
    "studies": ["study"],
    "sweeps": ["sweep"],
}  # fmt: skip
_HOMES = {name: home for home, names in _NAMES.items() for name in names}
_MODULES = (
    "audits", "capacity", "diagnosis", "dynamics", "explorer", "figures", "memory", "observables",
    "particles", "pictures", "planes", "problem", "registry", "simulation", "special", "studies", "sweeps",
    "system", "systems", "theory", "transformer",
)  # fmt: skip

__all__ = ["__version__", *_HOMES, *_MODULES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'engram' has no attribute {name!r}")
    is_on = gc.isenabled()
    gc.disable()  # imports leave no garbage: looking for it would take a third of their time
    try:
        module = importlib.import_module(f"engram.{_HOMES.get(name, name)}")
    finally:
        if is_on:
            gc.enable()
    globals()[name] = value = getattr(module, name) if name in _HOMES else module
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
