"""What the page may choose: everything registered, within bounds that keep a request short."""

from collections.abc import Iterator, Mapping
from typing import Any

from engram.registry import Entry, Field, entries, entry_of, names_of

MOST_TOKENS = 50
MOST_STEPS = 20_000
FLOW_STEPS = 4096  # of the explicit solver, so that no request takes long
KINDS = ("problem", "system", "dynamics", "optimizer", "sampling", "observable", "event")
PARTS = ("optimizer", "sampling")
WRITTEN = ("paper", "table", "own")  # problems that are of no family
RATES = (1e-6, 1e6)
SEEDS = (0, 2**31 - 1)

_BOUNDS = {
    "num_tokens": (1, MOST_TOKENS), "num_classes": (2, 10), "dim": (2, 32), "exponent": (0, 4),
    "learning_rate": RATES, "batch_size": (1, 64), "seed": SEEDS,
}  # fmt: skip
_USUAL = {
    "correlation": 0.95, "p1": 0.75, "num_tokens": 10, "num_classes": 2, "dim": 2,
    "learning_rate": 1.0, "batch_size": 4,
}  # fmt: skip
# What the page decides itself, by steps and rate, of dynamics that count in time.
_TIMED = ("times", "end", "num_times", "spacing", "solver", "max_steps", "time_step", "brownian")
_SHOWN = {
    "observable": ("loss", "error", "margins"),
    "event": ("events",),
    "problem": ("file", *WRITTEN),
}


def is_timed(kind: str) -> bool:
    """Whether a dynamics is told its times, and not how many steps to make."""
    return "times" in entry_of("dynamics", kind).fields


def hidden_fields(kind: str, name: str) -> tuple[str, ...]:
    """The fields that the page fills in."""
    if kind != "dynamics":
        return ()
    return _TIMED if is_timed(name) else ("steps",)


def names_for(kind: str) -> list[str]:
    """The names that the page offers: not files, nor what it shows in any case, nor what it cannot draw."""
    known = [name for name in names_of(kind) if name not in _SHOWN.get(kind, ())]
    return [name for name in known if len(entry_of(kind, name).about.get("axes") or ()) < 2]


def bounds_of(name: str, field: Field) -> tuple[int | float | None, int | float | None]:
    """The least and the largest value of a number: the field's own bounds, and the page's."""
    low, high = field.bounds
    low, high = (field.above if low is None else low), (field.below if high is None else high)
    least, most = _BOUNDS.get(name, (None, MOST_STEPS if int in field.forms else None))
    low = max((bound for bound in (low, least) if bound is not None), default=None)
    return low, min((bound for bound in (high, most) if bound is not None), default=None)


def beyond(fields: Mapping[str, Field], table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The numbers of a table that the page's bounds leave out: their fields, and what to say of them."""
    for name, field in fields.items():
        low, high = bounds_of(name, field)
        for value in _numbers(table.get(name)):
            if low is not None and value < low:
                yield name, f"must be at least {low} here, got {value}. Choose a larger one."
            if high is not None and value > high:
                yield name, f"must be at most {high} here, got {value}. Choose a smaller one."


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, list):
        for item in value:
            yield from _numbers(item)
    elif type(value) in (int, float):
        yield value


def catalogue() -> dict[str, Any]:
    """Every name by its kind, with what a control needs to know of its fields."""
    return {
        kind: {name: _about(kind, entry_of(kind, name)) for name in names_for(kind)}
        for kind in KINDS
    }


def _about(kind: str, entry: Entry) -> dict[str, Any]:
    hidden = hidden_fields(kind, entry.name)
    # A field with an empty argument is no concern of what is made.
    fields = {
        name: field
        for name, field in entry.fields.items()
        if name not in hidden and field.argument != ""
    }
    for part, name in entry.parts.items():
        fields = {**(entries(part)[name].fields if name else {}), **fields}
    needed = {group[0] for group in entry.needs}
    if kind == "dynamics" and is_timed(entry.name) and "learning_rate" not in fields:
        time = Field("Flow time of one step.", bounds=RATES, type=float)
        fields = {"learning_rate": time} | fields
    return {
        "help": entry.help,
        "is_own": entry.origin is not None,
        "parts": [part for part, name in entry.parts.items() if name is None],
        "fields": {
            name: _control(name, field, field.is_required or name in needed)
            for name, field in fields.items()
        },
    }


def _control(name: str, field: Field, is_required: bool) -> dict[str, Any]:
    low, high = bounds_of(name, field)
    return {
        "form": _form(field),
        "help": field.help,
        "low": low,
        "high": high,
        "choices": list(field.choices),
        "is_required": is_required,
        "takes_list": list[float] in field.forms,
        "usual": _usual(name, field, low, high) if is_required else field.default,
    }


def _form(field: Field) -> str:
    """Which control it gets; a number in doubt, if that is what it usually is."""
    is_plain = field.is_number and (str not in field.forms or type(field.default) in (int, float))
    if bool in field.forms and (field.forms == (bool,) or type(field.default) is bool):
        return "truth"
    if is_plain:
        return "number" if float in field.forms else "whole"
    return "choice" if field.choices and not _has_lists(field) else "text"


def _has_lists(field: Field) -> bool:
    return any(getattr(form, "__origin__", form) in (list, dict, str) for form in field.forms)


def _usual(name: str, field: Field, low: Any, high: Any) -> Any:
    """What the control of a field that must be given begins with."""
    if field.choices:
        return field.choices[0]
    if not field.is_number:
        return False if bool in field.forms else ""
    value = _USUAL.get(name, 1)
    value = value if low is None else max(value, low)
    return value if high is None else min(value, high)
