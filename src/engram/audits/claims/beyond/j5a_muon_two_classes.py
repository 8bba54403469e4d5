"""J5a: Muon with two classes."""

import functools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from engram._precision import in_double
from engram.audits._claim import Curves
from engram.audits._evidence import Evidence, all_of, at_least, at_most, equal
from engram.audits._parameters import rng_for
from engram.audits.claims._checks import Checks
from engram.dynamics import GradientDescent, PracticalDescent, exact_muon, normalised, run
from engram.memory import MemorySystem, margins
from engram.problem import Problem
from engram.theory import muon

_STEPS = 160
_TIMES = np.arange(_STEPS + 1)


def _problem(rng: np.random.Generator, *, equal: bool = False) -> Problem:
    """Four orthogonal inputs, turned at random, in two classes."""
    turned = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    lengths = np.ones(4) if equal else rng.uniform(0.6, 1.6, 4)
    probs = np.full(4, 0.25) if equal else rng.dirichlet(np.full(4, 2.0))
    return Problem(
        turned * lengths[:, None], rng.normal(size=(2, 4)), probs, np.array([0, 1, 0, 1])
    )


@functools.lru_cache(maxsize=1)
def _programs() -> dict:
    def of(make):
        @in_double
        @jax.jit
        def series(problem, rate):
            record = lambda system, dynamics, carry: margins(
                system.problem, dynamics.state_of(carry.inner)
            )
            start = jnp.zeros((4, 4))
            at = jnp.arange(_STEPS + 1)
            return run(MemorySystem(problem), make(rate), start, at=at, record=record).records

        return lambda problem, rate: np.asarray(series(problem, rate))

    descents = {"muon": exact_muon, "normalised": normalised}
    programs = {n: of(lambda r, m=m: PracticalDescent(m(r), _STEPS)) for n, m in descents.items()}
    return programs | {"descent": of(lambda r: GradientDescent(r, _STEPS))}


class J5a(Checks):
    @all_of
    def printed(self, seed: int) -> Iterator[Evidence]:
        rng, of = rng_for(seed, "J5a"), _programs()
        for _ in range(6):
            problem = _problem(rng)
            for gain in (0.3, 1.0, 1.8, 2.4, 6.0):
                rate = gain / muon.gain_per_step(1.0, problem)
                m = of["muon"](problem, rate)
                least, at = m.min(1), {"gain": gain}
                if gain < 2:
                    # Beyond, rounding grows from step to step.
                    yield equal(m, of["normalised"](problem, rate), tolerance=1e-9, **at)
                yield at_most(
                    least, muon.gain_per_step(rate, problem) * _TIMES, tolerance=1e-9, **at
                )
                slope = (least[-1] - least[80]) / 80 / muon.gain_per_step(rate, problem)
                if gain < 2:
                    yield equal(slope, 1.0, tolerance=0.005, **at)
                else:
                    yield at_most(slope, 0.98, **at)
        problem = _problem(rng, equal=True)
        exact = muon.gain_per_step(0.8, problem) * _TIMES[:, None]
        yield equal(of["muon"](problem, 0.8), exact, tolerance=1e-10)
        slow = of["descent"](problem, 0.8).min(1)
        yield at_least(np.log1p(2 * 0.8 * _TIMES), slow, tolerance=0.5)

    def curves(self) -> Curves:
        problem = _problem(np.random.default_rng(0))
        rate = 0.5 / muon.gain_per_step(1.0, problem)
        series = {"true": _programs()["muon"](problem, rate).min(1), "corrected": 0.5 * _TIMES}
        title = "least margin under exact Muon, two classes; corrected: the bound ηγt"
        return Curves(title, ("step", _TIMES), series, "least margin")
