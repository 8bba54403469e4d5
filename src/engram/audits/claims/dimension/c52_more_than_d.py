"""C52: more associations than dimensions."""

import dataclasses
import functools
import json
from importlib import resources

import jax
import jax.numpy as jnp
import numpy as np
from flint import fmpq

from engram import memory
from engram._precision import in_double
from engram.audits._balls import dot
from engram.audits._certificate import Certificate
from engram.audits._evidence import Evidence, at_least, both, equal, frequency, true
from engram.audits._parameters import rng_for
from engram.audits.claims._checks import Checks
from engram.capacity import is_separable, max_margin
from engram.dynamics import GradientDescent, run
from engram.particles import ParticleSystem
from engram.problem import Problem, on_sphere, zipf

_DRAWS = 64


@functools.lru_cache(maxsize=2)
def _five_in_three(seed: int) -> tuple[list[Problem], np.ndarray]:
    """Figure 6 with d = 3: random draws, and the margins after 20,000 steps at learning rate 10."""
    keys = rng_for(seed, "C52").integers(0, 2**31, _DRAWS)
    problems = [on_sphere(int(key), 5, 5, 3, targets="identity") for key in keys]
    inputs, outputs = zip(*((q.inputs, q.outputs) for q in problems), strict=True)
    return problems, _train(np.stack(inputs), np.stack(outputs))


@in_double
def _train(inputs: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    p = jnp.asarray(np.asarray(zipf(5), float))

    @jax.vmap
    def margins(E, U):
        system = ParticleSystem(Problem(E, U, p, np.arange(5)))
        descent, state = GradientDescent(10.0, 20_000), system.start(jnp.zeros((3, 3)))
        count = lambda system, dynamics, carry: carry.index
        w = run(system, descent, state, at=jnp.array([20_000]), record=count).final.scores
        return jnp.diag(w) - jnp.where(jnp.eye(5, dtype=bool), -jnp.inf, w).max(1)

    return np.asarray(jax.jit(margins)(jnp.asarray(inputs), jnp.asarray(outputs)))


def _authors_draw() -> Problem:
    """The draw of Figure 6 with d = 3, as it is shipped with the figure."""
    file = resources.files("engram") / "figures" / "data" / "fig6.json"
    case = json.loads(file.read_text(encoding="utf-8"))["cases"][0]
    return Problem(case["E"], case["U"], case["probabilities_f64"], case["targets"])


class C52(Checks):
    _weights = np.array([[-38, 66, 14], [-25, 41, 2], [82, -100, -34]])  # in hundredths

    def printed(self, seed: int) -> Evidence:
        """As printed: not one draw can be learnt whole."""
        _, m = _five_in_three(seed)
        return frequency((m > 0).all(1), below=0.0)

    def corrected(self, seed: int) -> Evidence:
        problems, m = _five_in_three(seed)
        drawn = _authors_draw()
        theirs = _train(np.asarray(drawn.inputs)[None], np.asarray(drawn.outputs)[None])
        stored = np.array([is_separable(problem) for problem in problems])
        learnt = (m > 0).all(1)
        solved = [q for q, fits in zip(problems, stored, strict=True) if fits]
        errors = [memory.error_rate(q, max_margin(q)) for q in solved]
        angle = np.linspace(0, 2 * np.pi, 13)[:-1]
        ring = np.stack([np.cos(angle), np.sin(angle)], 1)
        many = Problem(ring, ring, np.full(12, 1 / 12), np.arange(12))
        evidence = both(
            frequency(stored, above=0.9), true(stored | ~learnt), equal(errors, 0.0),
            equal(memory.error_rate(many, np.eye(2)), 0.0), true(theirs > 0), true(is_separable(drawn)),
            at_least((m > 0).mean(0)[0], (m > 0).mean(0)[4], tolerance=0.2),
        )  # fmt: skip
        note = f"{stored.mean():.3f} can be stored, {learnt.mean():.3f} are after 20,000 steps, of {_DRAWS} draws"
        return dataclasses.replace(evidence, note=note)

    def certificates(self) -> list[Certificate]:
        drawn, W = _authors_draw(), [[fmpq(int(w), 100) for w in row] for row in self._weights]
        E, U = ([[fmpq(*x.as_integer_ratio()) for x in row] for row in part.tolist()] for part in (drawn.inputs, drawn.outputs))  # fmt: skip
        scores = [[dot(u, [dot(row, e) for row in W]) for u in U] for e in E]
        leads = [w - max(wrong for y, wrong in enumerate(row) if y != x) for x, row in enumerate(scores) for w in [row[x]]]  # fmt: skip
        statement = "the authors' draw with d = 3, N = 5 and W = (−38, 66, 14; −25, 41, 2; 82, −100, −34)/100: not all are stored, the least margin is at most 0"
        return [Certificate(statement, min(leads), "<=", fmpq(0))]
