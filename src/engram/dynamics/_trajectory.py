"""What a run leaves behind: when, what was recorded, how it ended."""

import enum
from typing import Any

import equinox as eqx
from jaxtyping import Float, Int

from engram._types import Array


class Status(enum.IntEnum):
    """How a run ended; its text says what to do about it."""

    RUNNING = 0
    COMPLETED = 1
    STOPPED = 2
    NOT_FINITE = 3
    STEP_LIMIT = 4
    INTERRUPTED = 5

    @property
    def text(self) -> str:
        """What it means, in words."""
        return _TEXTS[self]


_TEXTS = {
    Status.RUNNING: "not finished",
    Status.COMPLETED: "completed",
    Status.STOPPED: "the stop condition was met",
    Status.NOT_FINITE: "a state was not finite; lower the learning rate",
    Status.STEP_LIMIT: "the solver's step limit was reached; raise `max_steps` or loosen `rtol`",
    Status.INTERRUPTED: "interrupted",
}


class Trajectory(eqx.Module):
    """A path, as far as it was recorded.

    Args:
        times: Flow time or step index of each record.
        records: What `record` returned, with a leading axis of the length of `times`; NaN where
            the run ended before.
        folded: What `fold` made of every step, or None.
        final: The last state.
        status: A `Status`, as an integer.
        stopped_at: The step (or time) at which the run ended.
        num_recorded: How many of the records were reached.
        num_steps: Steps taken; for a flow, those of the solver, rejected ones included.
    """

    times: Float[Array, " T"] | Int[Array, " T"]
    records: Any
    folded: Any
    final: Any
    status: Int[Array, ""]
    stopped_at: Array
    num_recorded: Int[Array, ""]
    num_steps: Int[Array, ""]
