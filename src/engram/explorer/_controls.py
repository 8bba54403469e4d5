"""What the page may choose: everything registered, within bounds that keep a request short."""

from collections.abc import Iterator, Mapping
from typing import Any

from engram.registry import CHOOSERS, Field, entry_of, fields_of, names_of

KINDS = ("problem", "system", "dynamics", "optimizer", "sampling", "observable", "event")
WRITTEN = ("paper", "table", "own", "replay")  # problems that belong to no family
MOST_STEPS = 20_000
SIZES = {"num_tokens": 50, "num_classes": 10, "dim": 32, "output_dim": 32}  # at most
RATES = (1e-6, 1e6)
SEEDS = (0, 2**31 - 1)

_BOUNDS = {
    **{name: (None, most) for name, most in SIZES.items()},
    "subjects": (None, 50), "relations": (None, 10), "answers": (None, 10), "num_relations": (None, 10),
    "num_noise": (None, 16), "noise_tokens": (None, 32), "token_dim": (None, 64), "prompts": (None, 8),
    "exponent": (0, 4), "learning_rate": RATES, "batch_size": (1, 64), "seed": SEEDS, "start_seed": SEEDS,
}  # fmt: skip
_FIRST_VALUES = {  # of fields that must be given
    "correlation": 0.95, "p1": 0.75, "num_tokens": 10, "num_classes": 2, "dim": 2,
    "subjects": 6, "relations": 2, "answers": 3,
    "learning_rate": 1.0, "batch_size": 4, "rank": 2, "width": 16,
}  # fmt: skip
# What the page decides itself, by steps and rate, of dynamics that count in time.
_TIMED = ("times", "end", "num_times", "spacing", "solver", "max_steps", "time_step", "brownian")
_NOT_OFFERED = {  # files, and what is shown in any case
    "observable": ("loss", "error", "margins"),
    "event": ("events",),
    "problem": ("file", "text", *WRITTEN),
}


def is_timed(kind: str) -> bool:
    """Whether a dynamics is given times instead of a number of steps."""
    return "times" in entry_of("dynamics", kind).fields


def hidden_fields(kind: str, name: str) -> tuple[str, ...]:
    """The fields that the page fills in."""
    if kind != "dynamics":
        return ()
    return _TIMED if is_timed(name) else ("steps",)


def names_for(kind: str) -> list[str]:
    """The names that the page offers: those that it can draw and does not always show."""
    names = [name for name in names_of(kind) if name not in _NOT_OFFERED.get(kind, ())]
    return [name for name in names if len(entry_of(kind, name).about.get("axes") or ()) < 2]


def bounds_of(name: str, field: Field) -> tuple[int | float | None, int | float | None]:
    """The least and the largest value of a number: the field's own bounds, and the page's."""
    least, most = _BOUNDS.get(name, (None, MOST_STEPS if int in field.forms else None))
    given = lambda *bounds: [bound for bound in bounds if bound is not None]
    low = max(given(field.bounds[0], field.above, least), default=None)
    return low, min(given(field.bounds[1], field.below, most), default=None)


def out_of_bounds(
    fields: Mapping[str, Field], table: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """The fields of a table whose numbers are out of the page's bounds, and what to say of each."""
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


def catalogue() -> dict[str, dict[str, Any]]:
    """Every name by its kind, with what a control needs to know of its fields."""
    return {kind: {name: _described(kind, name) for name in names_for(kind)} for kind in KINDS}


def _described(kind: str, name: str) -> dict[str, Any]:
    entry, hidden = entry_of(kind, name), hidden_fields(kind, name)
    fields = fields_of(kind, {CHOOSERS.get(kind, "kind"): name})
    if kind == "dynamics" and is_timed(name) and "learning_rate" not in fields:
        time = Field("Flow time of one step.", bounds=RATES, type=float)
        fields = {"learning_rate": time} | fields
    needed = {group[0] for group in entry.needs}
    return {
        "help": entry.help,
        "is_own": entry.origin is not None,
        "parts": [part for part, chosen in entry.parts.items() if chosen is None],
        "fields": {
            each: _control(each, field, field.is_required or each in needed)
            for each, field in fields.items()
            if each not in hidden and field.argument != ""  # what its maker takes no notice of
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
        "usual": _first_value(name, field, low, high) if is_required else field.default,
    }


def _form(field: Field) -> str:
    """Which control it gets; a number in doubt, if that is what it usually is."""
    if bool in field.forms and (field.forms == (bool,) or type(field.default) is bool):
        return "truth"
    if field.is_number and (str not in field.forms or type(field.default) in (int, float)):
        return "number" if float in field.forms else "whole"
    is_open = any(getattr(form, "__origin__", form) in (list, dict, str) for form in field.forms)
    return "choice" if field.choices and not is_open else "text"


def _first_value(name: str, field: Field, low: Any, high: Any) -> Any:
    """What the control of a field that must be given begins with."""
    if field.choices:
        return field.choices[0]
    if not field.is_number:
        return False if bool in field.forms else ""
    value = _FIRST_VALUES.get(name, 1)
    value = value if low is None else max(value, low)
    return value if high is None else min(value, high)
