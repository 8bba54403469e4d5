"""What a run leaves behind: when, what was recorded, how it ended."""

import enum
from typing import Any

import equinox as eqx
from jaxtyping import Float, Int

from engram._types import Array, PyTree


class Status(enum.IntEnum):
    """How a run ended; its `text` says what to do about it."""

    RUNNING = 0, "not finished"
    COMPLETED = 1, "completed"
    STOPPED = 2, "the stop condition was met"
    NOT_FINITE = 3, "a state was not finite; lower the learning rate"
    STEP_LIMIT = 4, "the solver's step limit was reached; raise `max_steps` or loosen `rtol`"
    INTERRUPTED = 5, "interrupted"

    text: str

    def __new__(cls, value: int, text: str) -> "Status":
        status = int.__new__(cls, value)
        status._value_, status.text = value, text
        return status


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
    folded: PyTree
    final: Any
    status: Int[Array, ""]
    stopped_at: Array
    num_recorded: Int[Array, ""]
    num_steps: Int[Array, ""]
