"""Cells: many runs of one shape at a time, each with its own numbers, in lanes of one compiled program."""

import json
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from engram._checks import InputError
from engram._precision import GENERATOR, in_double, make_key
from engram.dynamics import BURST, AbstractStepwise, Carry, Moment, filed, moment_of
from engram.observables import NEVER, AbstractObservable, Folds, make_observable
from engram.particles import BareMarginSystem
from engram.registry import make, origins, used_in
from engram.simulation import choose_space, make_system
from engram.specs import SimulationSpec, build_problem, build_system
from engram.sweeps._outcomes import (
    NEEDS_TAIL,
    TAIL,
    Tail,
    endings,
    folds_for,
    glance,
    results,
)
from engram.sweeps._spec import SweepSpec, kind_of

# Programs of earlier sweeps: one of the same form, over another grid, does not compile again.
_kept: dict[str, dict[str, Any]] = {}
_MOST_KEPT = 32


def _programs_for(spec: SweepSpec, varying: tuple[str, ...]) -> dict[str, Any]:
    """What was compiled for a simulation with these fields free; files and plugins may change meanwhile."""
    simulation = spec.simulation
    has_events = any(kind_of(name) == "event" for name in spec.measured)
    if simulation.problem.get("path") or origins(simulation.used()) or has_events:
        return {}
    fixed = {
        name: {key: value for key, value in table.items() if key not in varying}
        for name, table in simulation.tables.items()
    }
    form = json.dumps([fixed, varying, spec.measured, spec.seed], sort_keys=True, default=repr)
    if form not in _kept and len(_kept) >= _MOST_KEPT:
        _kept.pop(next(iter(_kept)), None)
    return _kept.setdefault(form, {})


class Batch(NamedTuple):
    """Runs side by side: every leaf has one row per lane."""

    system: Any
    dynamics: Any
    fold: Any  # None where all lanes fold alike
    inner: Any
    folded: Any
    key: Any


class Runner:
    """Runs cells that share their shapes.

    Args:
        spec: The sweep; fields that vary hold any value that is valid.
        varying: The names of the axes that vary from lane to lane.
    """

    def __init__(self, spec: SweepSpec, varying: tuple[str, ...]):
        self.spec: SweepSpec = spec
        self.wanted: frozenset[str] = frozenset(spec.measured)
        simulation = spec.simulation
        self.has_start: bool = "start_scale" in varying or bool(simulation.run["start_scale"])
        self.fold: Folds = _folds(spec)
        folded = ("run", *(name for name in spec.measured if kind_of(name) == "event"))
        self._folds_vary = any(
            spec.homes[name].table in folded for name in varying if name != "start_scale"
        )
        observed = [name for name in spec.measured if kind_of(name) == "observable"]
        self.last: dict[str, Any] = {name: _unprepared(spec.measured[name]) for name in observed}
        problem, dynamics = build_problem(simulation.problem), _stepwise(simulation)
        self.space: str = "its own"
        if simulation.system is None:
            self.space = choose_space(problem, dynamics, simulation.run["space"])
        self.is_bare: bool = self.space == "margins" and dynamics.needs_margins_only
        self.last_step: int = dynamics.num_steps
        self.num_tokens: int = problem.num_tokens
        self.names: tuple[str, ...] | None = problem.names
        width = problem.num_tokens * (1 if self.space == "margins" else problem.num_classes)
        # Lanes fill the processor's vectors and stay in its nearest cache.
        room = 2**22 / (2 * TAIL + 1) if self.wanted & NEEDS_TAIL else 2**12
        self.lanes: int = int(np.clip(2 ** int(np.log2(room / width)), 32, 2048))
        self.seconds: dict[str, float] = {"compiling": 0.0, "computing": 0.0}
        self._programs = _programs_for(spec, varying)
        used = [*simulation.used(), *used_in({"event": list(spec.measured)})]
        self._has_own = bool(origins(used))  # engram's own are all numbers
        self._fixed: Any = None
        self._lock = threading.Lock()  # units run in threads: each program is compiled once

    @in_double
    def run(
        self, columns: dict[str, np.ndarray], cells: np.ndarray, compact: bool = True
    ) -> dict[str, np.ndarray]:
        """Measure every cell; with `compact`, those that are decided stop costing."""
        self._know_fixed(columns)
        if compact and self.wanted == {"first_perfect"}:
            return {"first_perfect": self._first_hits(columns, cells)}
        total, rest = self._lengths()
        done = [
            self._results(self._call("whole", self._whole, *part, total, rest))
            for part in self._tiles(columns, cells)
        ]
        return {
            name: np.concatenate([part[name] for part in done])[: len(cells)] for name in done[0]
        }

    def _results(self, ended: tuple[Any, dict[str, Any]]) -> dict[str, np.ndarray]:
        folded, ends = jax.tree.map(np.asarray, ended)
        return results(self.fold, folded, ends, self.last_step, self.wanted)

    @in_double
    def variables(self, columns: dict[str, Any]) -> dict[str, tuple[tuple[str, ...], Any]]:
        """What observables and events are of a run: axes, and a value of the form."""
        values = {name: column[0] for name, column in columns.items()}
        begun = lambda: self._begin_one(values, np.uint32(0))
        zeros = lambda leaf: np.zeros((1, *leaf.shape), leaf.dtype)
        folded = jax.tree.map(zeros, jax.eval_shape(lambda: begun().folded))
        events = _folds(self.spec, only_events=True)
        ends = jax.tree.map(zeros, jax.eval_shape(lambda: self._ends(self._lane(begun()), 0)))
        described = events.describe_all(folded[len(folded) - len(events.folds) :], self.last_step)
        variables = {name: (self.last[name].axes, value) for name, value in ends.items()}
        return {
            name: (
                tuple(f"{name}_{i}" for i in range(value.ndim - 1)) if axes is None else axes,
                value[0],
            )
            for name, (axes, value) in (variables | described).items()
        }

    def _tiles(self, columns: dict[str, np.ndarray], cells: np.ndarray) -> Iterator[Any]:
        for begin in range(0, len(cells), self.lanes):
            part = {name: values[begin : begin + self.lanes] for name, values in columns.items()}
            yield _filled((part, cells[begin : begin + self.lanes]), self.lanes)

    def _lengths(self) -> tuple[int, int]:
        """Whole bursts before the end, and the steps that are left then, without those of the tail."""
        deep = 2 * TAIL if self.wanted & NEEDS_TAIL else 0
        return divmod(self.last_step - deep, BURST)

    def _first_hits(self, columns: dict[str, np.ndarray], cells: np.ndarray) -> np.ndarray:
        """First steps without error: cells that have it are dropped, the others close ranks."""
        total, rest = self._lengths()
        batches = [self._call("begin", self._begin, *part) for part in self._tiles(columns, cells)]
        first = np.full(len(cells), np.nan)
        open_cells, at, length = np.arange(len(cells)), 0, 1
        hits = lambda parts: np.concatenate([np.asarray(part) for part in parts])[: len(open_cells)]
        while at < total and len(open_cells):
            length = min(length, total - at)
            batches = [
                self._call("walk", self._walk, batch, at * BURST, length) for batch in batches
            ]
            at += length
            hit = hits([batch.folded[0].accuracy[0] for batch in batches])
            first[open_cells] = np.where(hit == NEVER, np.nan, hit)
            undecided = hit == NEVER
            if undecided.sum() <= 0.75 * len(open_cells):
                batches = self._gathered(batches, np.flatnonzero(undecided))
                open_cells = open_cells[undecided]
            length *= 2
        if batches:
            ends = [
                self._results(self._call("finish", self._finish, batch, at * BURST, rest))
                for batch in batches
            ]
            first[open_cells] = hits([end["first_perfect"] for end in ends])
        return first

    def _gathered(self, batches: list[Batch], kept: np.ndarray) -> list[Batch]:
        """The lanes at `kept`, closed up into full batches."""
        join = lambda *parts: np.concatenate([np.asarray(part) for part in parts])[kept]
        rows = jax.tree.map(join, *batches)
        size = self.lanes
        cut = lambda begin: jax.tree.map(lambda leaf: leaf[begin : begin + size], rows)
        return [_filled(cut(begin), size) for begin in range(0, len(kept), size)]

    @jax.disable_jit(False)  # of what is compiled ahead of time, JAX knows no other form
    def _call(self, name: str, function: Any, *args: Any) -> Any:
        """Run a program, compiled when first used; wait for it, so that its time is known."""
        with self._lock:
            if name not in self._programs:
                began = time.perf_counter()
                self._programs[name] = jax.jit(function).lower(*args).compile()
                self.seconds["compiling"] += time.perf_counter() - began
        began = time.perf_counter()
        results = jax.block_until_ready(self._programs[name](*args))
        self.seconds["computing"] += time.perf_counter() - began
        return results

    def _begin(self, columns: Any, cells: Any) -> Batch:
        return jax.vmap(self._begin_one)(columns, cells)

    def _begin_one(self, values: dict[str, Any], cell: Any) -> Batch:
        key = jax.random.fold_in(make_key(self.spec.seed), cell)
        if "seed" in values:
            values = values | {"seed": make_key(values["seed"])}
        sweep = self.spec.at(values, jnp.exp)
        spec = sweep.simulation
        problem, dynamics = build_problem(spec.problem), _stepwise(spec)
        what: Any = problem if spec.system is None else build_system(spec.system, problem)
        start = what.start()
        if self.has_start:
            start = what.draw_start(spec.run["start_scale"], jax.random.fold_in(key, 1))
        if spec.system is not None:
            system, state = what, start
        elif self.is_bare:
            system = BareMarginSystem(problem)
            state = system.start(start)
        else:
            system, state = make_system(problem, dynamics, self.space, start)
        inner = dynamics.init_with(system, state, key)
        fold = _folds(sweep) if self._folds_vary else None
        folded = (fold or self.fold).init(system, state)
        system, dynamics, fold = self._varying((system, dynamics, fold))
        data = jax.random.key_data(key)
        return jax.tree.map(jnp.asarray, Batch(system, dynamics, fold, inner, folded, data))

    def _varying(self, objects: Any) -> Any:
        """The numbers in some objects; whatever else these hold is the same in all lanes, and kept."""
        if not self._has_own:
            return objects
        numbers, self._fixed = eqx.partition(objects, _is_number)
        return numbers

    def _lane(self, batch: Batch) -> Batch:
        """A lane with its system and dynamics whole."""
        if not self._has_own:
            return batch
        system, dynamics, fold = eqx.combine(batch[:3], self._fixed)
        return batch._replace(system=system, dynamics=dynamics, fold=fold)

    def _know_fixed(self, columns: dict[str, np.ndarray]) -> None:
        """Find what is the same in all lanes, where objects of the user's may hold such things."""
        if self._has_own and self._fixed is None:
            values = {name: column[0] for name, column in columns.items()}
            jax.eval_shape(lambda: self._begin_one(values, np.uint32(0)))

    def _moment(self, lane: Batch, t: Any) -> Moment:
        key = (
            jax.random.wrap_key_data(lane.key, impl=GENERATOR) if lane.dynamics.needs_key else None
        )
        carry = Carry(jnp.asarray(t), lane.inner, None, jnp.zeros((), int))
        return moment_of(lane.system, lane.dynamics, carry, key)

    def _take(self, lane: Batch, t: Any) -> tuple[Any, Any]:
        """What is known with step t taken in, and the lane's key."""
        moment, fold = self._moment(lane, t), lane.fold or self.fold
        return filed(fold.update(lane.folded, moment.carry.index, moment)), moment.key

    def _ends(self, lane: Batch, t: Any) -> dict[str, Any]:
        """Observables at the last step."""
        return {name: each(self._moment(lane, t)) for name, each in self.last.items()}

    def _step(self, batch: Batch, t: Any) -> Batch:
        """Take in step t and make the next, in every lane."""

        def one(lane: Batch) -> tuple[Any, Any]:
            lane = self._lane(lane)
            folded, key = self._take(lane, t)
            return lane.dynamics.step(lane.system, lane.inner, t, key), folded

        inner, folded = jax.vmap(one)(batch)
        return batch._replace(inner=inner, folded=folded)

    def _walk(self, batch: Batch, t: Any, bursts: Any) -> Batch:
        burst = lambda k, b: jax.lax.fori_loop(
            0, BURST, lambda i, c: self._step(c, t + k * BURST + i), b
        )
        return jax.lax.fori_loop(0, bursts, burst, batch)

    def _whole(
        self, columns: Any, cells: Any, bursts: Any, rest: Any
    ) -> tuple[Any, dict[str, Any]]:
        """From the start to the end, as one program."""
        batch = self._walk(self._begin(columns, cells), 0, bursts)
        return self._finish(batch, bursts * BURST, rest)

    def _finish(self, batch: Batch, t: Any, rest: Any) -> tuple[Any, dict[str, Any]]:
        batch = jax.lax.fori_loop(0, rest, lambda i, b: self._step(b, t + i), batch)
        t = t + rest

        def glanced(lane: Batch) -> Tail:
            lane = self._lane(lane)
            return glance(lane.system, lane.dynamics.state_of(lane.inner))

        look = jax.vmap(glanced)
        tail: Any = None
        if self.wanted & NEEDS_TAIL:

            def onwards(b: Batch, i: Any) -> tuple[Batch, Tail]:
                return self._step(b, t + i), look(b)

            batch, seen = jax.lax.scan(onwards, batch, jnp.arange(2 * TAIL))
            t = t + 2 * TAIL
            whole = jax.tree.map(
                lambda path, end: jnp.concatenate([path, end[None]]), seen, look(batch)
            )
            tail = jax.tree.map(lambda path: jnp.moveaxis(path, 1, 0), whole)

        def one(lane: Batch, tail: Any) -> tuple[Any, dict[str, Any]]:
            lane = self._lane(lane)
            state = lane.dynamics.state_of(lane.inner)
            ends = endings(lane.system, state, tail, self.wanted) | self._ends(lane, t)
            return self._take(lane, t)[0], ends

        return jax.vmap(one)(batch, tail)


def _folds(spec: SweepSpec, *, only_events: bool = False) -> Any:
    """What is folded at every step: what outcomes ask for, and the events that are named."""
    factor = spec.simulation.run["spike_factor"]
    factor = np.asarray(factor) if isinstance(factor, float) else factor
    events = {name: item for name, item in spec.measured.items() if kind_of(name) == "event"}
    if events.get("events") == "events":
        events["events"] = {"kind": "events", "spike_factor": factor}
    return folds_for(() if only_events else spec.measured, events, factor)


def _is_number(leaf: Any) -> bool:
    """Whether a leaf may differ from lane to lane; Python's whole numbers, booleans and texts do not."""
    return eqx.is_array(leaf) or isinstance(leaf, float | np.generic)


def _unprepared(item: Any) -> AbstractObservable:
    """An observable that needs nothing computed on the host before a run, of which there are many here."""
    observable = make_observable(item)
    if type(observable).prepare is not AbstractObservable.prepare:
        raise InputError(
            f"{item!r} is prepared for each run by itself, so a sweep cannot measure it. Leave it out, or "
            "simulate the cells one by one."
        )
    return observable


def _stepwise(spec: SimulationSpec) -> AbstractStepwise:
    dynamics = make("dynamics", spec.dynamics)
    assert isinstance(dynamics, AbstractStepwise), "checked when the spec was read"
    return dynamics


def _filled(rows: Any, size: int) -> Any:
    """Repeat the last row up to a full batch, so that one program serves all."""
    fill = lambda column: np.concatenate([column, np.repeat(column[-1:], size - len(column), 0)])
    return jax.tree.map(fill, rows)
