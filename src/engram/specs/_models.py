"""What a simulation spec may say, and which fields each choice needs."""

import json
import reprlib
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from engram._checks import InputError
from engram.observables import OBSERVABLES

M = TypeVar("M", bound=BaseModel)
OPTIONS = "the options"  # as the source of a spec that was typed, not read from a file

Finite = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[Finite, Field(gt=0)]
NotNegative = Annotated[Finite, Field(ge=0)]
Share = Annotated[Finite, Field(ge=0, lt=1)]  # of the past that an average keeps
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Count = Annotated[int, Field(ge=1, lt=2**31)]  # XLA counts in 32 bits
Steps = Annotated[int, Field(ge=0, le=2**53)]  # beyond they would not be exact as floats
Records = Annotated[int, Field(ge=2, le=10_000_000)]

Kind = Literal[
    "gd", "flow", "sgd", "sgf",
    "momentum", "nesterov", "normalised", "adam", "adamw", "rmsprop", "sign", "muon",
]  # fmt: skip

_FAMILY_NEEDS = {
    "two": ("correlation", "p1"),
    "orthonormal": ("num_tokens", "num_classes"),
    "one_hot": ("num_tokens", "num_classes"),
    "sphere": ("num_tokens", "num_classes", "dim"),
    "gaussian": ("num_tokens", "num_classes", "dim"),
    "file": ("path",),
}
_FAMILY_TAKES = {
    "two": {"correlation", "p1", "dim"},
    "orthonormal": {"num_tokens", "num_classes", "dim", "exponent", "probs", "targets"},
    "one_hot": {"num_tokens", "num_classes", "exponent", "probs", "targets"},
    "sphere": {"num_tokens", "num_classes", "dim", "exponent", "probs", "targets"},
    "gaussian": {"num_tokens", "num_classes", "dim", "exponent", "probs", "targets"},
    "file": {"path"},
}
_TIMES = {"end", "num_times", "spacing"}
_PRACTICAL = {"learning_rate", "steps", "batch_size", "weight_decay", "layer_norm"}
_KIND_TAKES = {
    "gd": {"learning_rate", "steps"},
    "sgd": {"learning_rate", "steps", "batch_size"},
    "flow": _TIMES,
    "sgf": _TIMES | {"learning_rate", "batch_size", "noise_scale", "time_step"},
    **{kind: _PRACTICAL | {"momentum"} for kind in ("momentum", "nesterov", "muon")},
    **{kind: _PRACTICAL | {"b1", "b2", "eps"} for kind in ("adam", "adamw")},
    "rmsprop": _PRACTICAL | {"decay", "eps"},
}
_KIND_NEEDS = dict.fromkeys(get_args(Kind), ("learning_rate", "steps")) | {
    "flow": ("end",),
    "sgf": ("end",),
    "sgd": ("learning_rate", "steps", "batch_size"),
}


def fields_of_family(family: str) -> set[str]:
    """What may be said of a problem of this family."""
    return _FAMILY_TAKES.get(family, set()) | {"family", "seed"}


def fields_of_kind(kind: str) -> set[str]:
    """What may be said of a dynamics of this kind."""
    return _KIND_TAKES.get(kind, _PRACTICAL) | {"kind"}


class Strict(BaseModel):
    # "constants": JSON would otherwise have null for an infinite bound.
    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants")


class ProblemSpec(Strict):
    """A problem by family; `engram.problem` says what each one is."""

    family: Literal["two", "orthonormal", "one_hot", "sphere", "gaussian", "file"] = "two"
    correlation: Annotated[Finite, Field(ge=-1, le=1)] | None = None
    p1: Annotated[Finite, Field(ge=0, le=1)] | None = None
    num_tokens: Count | None = None
    num_classes: Annotated[Count, Field(ge=2)] | None = None
    dim: Count | None = None
    exponent: Finite | None = None
    probs: Literal["uniform", "zipf"] | list[Finite] | None = None
    targets: Literal["identity", "mod", "random"] | list[int] = "mod"
    seed: Seed = 0
    path: str | None = None

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> "ProblemSpec":
        _require(self, _FAMILY_NEEDS[self.family], f"family {self.family!r}")
        _refuse(self, fields_of_family(self.family), f"family {self.family!r}")
        return self


class DynamicsSpec(Strict):
    """A dynamics by kind: the five of the paper, and optimizers by name.

    An optimizer's number that is left out is the default of `engram.dynamics`. `weight_decay` is the
    decoupled one of adamw; for all others it is a term of the gradient.
    """

    kind: Kind = "gd"
    learning_rate: NotNegative | None = None
    steps: Steps | None = None
    batch_size: Annotated[int, Field(ge=1, le=2**24)] | None = None
    end: Positive | None = None
    num_times: Annotated[Records, Field(le=1_000_000)] = 200
    spacing: Literal["linear", "log"] = "linear"
    noise_scale: NotNegative | None = None
    time_step: Positive | None = None
    momentum: Share | None = None
    b1: Share | None = None
    b2: Share | None = None
    decay: Share | None = None
    eps: NotNegative | None = None
    weight_decay: NotNegative | None = None
    layer_norm: bool = False

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> "DynamicsSpec":
        _require(self, _KIND_NEEDS[self.kind], f"kind {self.kind!r}")
        _refuse(self, fields_of_kind(self.kind), f"kind {self.kind!r}")
        if self.kind == "sgf" and self.noise_scale is None:
            _require(self, ("learning_rate", "batch_size"), "kind 'sgf' without noise_scale")
        return self


class RunSpec(Strict):
    """How to run and what to record."""

    record: list[str] = ["loss", "error", "margins"]
    space: Literal["auto", "weights", "particles", "margins"] = "auto"
    seed: Seed = 0
    start_scale: NotNegative = 0.0  # of a random start; zero starts at W = 0
    every: Count | None = None
    points: Records | None = None
    stop: Literal["perfect"] | dict[Literal["loss", "error", "grad_norm"], float] | None = None

    @field_validator("stop")
    @classmethod
    def _is_a_number(cls, stop: Any) -> Any:
        if isinstance(stop, dict) and any(bound != bound for bound in stop.values()):
            raise ValueError("must not be nan, which no run gets below. Give a number.")
        return stop

    @field_validator("record")
    @classmethod
    def _known(cls, names: list[str]) -> list[str]:
        unknown = [name for name in names if name not in OBSERVABLES]
        if unknown:
            shown = ", ".join(map(repr, unknown))
            raise ValueError(
                f"unknown observable {shown}; known: {', '.join(OBSERVABLES)}. Pick from those."
            )
        return names


class SimulationSpec(Strict):
    """A whole simulation."""

    problem: ProblemSpec = Field(default_factory=lambda: ProblemSpec(correlation=0.95, p1=0.75))
    dynamics: DynamicsSpec
    run: RunSpec = Field(default_factory=RunSpec)


def _require(spec: BaseModel, names: tuple[str, ...], what: str) -> None:
    missing = [name for name in names if getattr(spec, name) is None]
    if missing:
        raise ValueError(_needs(what, missing))


def _refuse(spec: BaseModel, taken: set[str], what: str) -> None:
    unused = sorted(spec.model_fields_set - taken)
    if unused:
        raise ValueError(f"{what} does not take {', '.join(unused)}. Leave it out.")


def _needs(what: str, missing: list[str]) -> str:
    return f"{what} needs {', '.join(missing)}. Give it."


_LARGEST = 2**22  # bytes of a TOML file
_DEEPEST = 16  # levels of tables and lists in one


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    try:
        with open(path, "rb") as file:
            content = file.read(_LARGEST + 1)  # no more: a device may have no end
        if len(content) > _LARGEST:
            raise InputError(f"SPEC has more than {_LARGEST >> 20} MiB: {path}. It is no spec.")
        text = content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"SPEC cannot be read: {path} ({error}). Check the name.") from None
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"SPEC is not TOML: {path}: {error}. Fix that line.") from None
    except (ValueError, RecursionError):
        raise InputError(
            f"SPEC has a number of thousands of digits, or thousands of levels: {path}. Fix that."
        ) from None
    _check_values(path, tables)
    return tables


def _check_values(path: Path, tables: dict[str, Any]) -> None:
    """Refuse what TOML's parser lets pass: integers of more than 64 bits, and endless nesting."""
    left: list[tuple[str, int, Any]] = [("", 0, tables)]
    while left:
        place, depth, value = left.pop()
        if depth > _DEEPEST:
            raise InputError(f"SPEC nests too deep: {path}: {place}. Write fewer levels.")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise InputError(
                f"SPEC must have whole numbers below 2**63: {path}: {place} is beyond. "
                "Choose a smaller one."
            )
        items = value.items() if isinstance(value, dict) else ()
        items = enumerate(value) if isinstance(value, list) else items
        left += [(f"{place}.{key}" if place else str(key), depth + 1, item) for key, item in items]


def read_spec(tables: dict[str, Any], source: str) -> SimulationSpec:
    """Check a spec whole; every fault is reported, each with its place and the value met."""
    return validate(SimulationSpec, tables, source)


def validate(model: type[M], tables: dict[str, Any], source: str) -> M:
    """Read tables as a model; every fault is reported at once, each with its place and the value met."""
    try:
        # By way of JSON, where strict is as strict as TOML: neither true nor "5" is a number.
        return model.model_validate_json(json.dumps(tables, default=str), strict=True)
    except ValidationError as error:
        faults = _describe(error, is_typed=source == OPTIONS) + _missing(tables)
        faults = list(dict.fromkeys(faults))
    plural = "s" if len(faults) > 1 else ""
    raise InputError(f"{len(faults)} fault{plural} in {source}:\n  " + "\n  ".join(faults))


def write_spec(spec: SimulationSpec) -> str:
    """A spec as JSON that `read_spec` takes: each field that its choices use, defaults included."""
    used = {
        "problem": fields_of_family(spec.problem.family),
        "dynamics": fields_of_kind(spec.dynamics.kind),
        "run": True,
    }
    return spec.model_dump_json(include=used, exclude_none=True)


def _missing(tables: dict[str, Any]) -> list[str]:
    """Fields that a choice needs; looked for here when other faults hid them."""
    found = []
    for table, choice, default, needs in (
        ("problem", "family", "two", _FAMILY_NEEDS),
        ("dynamics", "kind", "gd", _KIND_NEEDS),
    ):
        given = tables.get(table)
        given = given[0] if isinstance(given, list) and given else given  # of runs side by side
        if isinstance(given, dict):
            name = given.get(choice, default)
            wanted = needs.get(name, ()) if isinstance(name, str) else ()
            missing = [field for field in wanted if field not in given]
            if missing:
                found.append(f"{table}: {_needs(f'{choice} {name!r}', missing)}")
    return found


_TYPED = {"family": "tokens", "path": "problem-file", "kind": "dynamics"}
_WORDS = {
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "string_type": "must be text",
    "list_type": "must be a list",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "dataclass_type": "must be a table",
    "missing": "must be given",
    "extra_forbidden": "no such field",
    "unexpected_keyword_argument": "no such field",
}
_MOVES = {
    "missing": "Give it.",
    "greater_than": "Choose a larger one.",
    "greater_than_equal": "Choose a larger one.",
    "less_than": "Choose a smaller one.",
    "less_than_equal": "Choose a smaller one.",
    "literal_error": "Pick one.",
    "extra_forbidden": "Check its spelling, or strike it out.",
    "unexpected_keyword_argument": "Check its spelling, or strike it out.",
}


def _describe(error: ValidationError, *, is_typed: bool) -> list[str]:
    """Each fault with its place, the value met and what to do; as an option, if it was typed as one."""
    places: dict[tuple[Any, ...], list[Any]] = {}
    for fault in error.errors():
        places.setdefault(_place(fault["loc"]), []).append(fault)
    told = []
    for place, faults in places.items():
        if len(faults) == 1 and any(place == other[: len(place)] != other for other in places):
            continue  # a field of several forms, of which another was meant, told farther inside
        name = ".".join(map(str, place)) or "spec"
        if is_typed and len(place) > 1:
            field = str(place[1])
            name = f"--{_TYPED.get(field, field).replace('_', '-')} ({name})"
        told.append(f"{name}: {_words(faults)}")
    return told


def _place(loc: tuple[Any, ...]) -> tuple[Any, ...]:
    """Where the user wrote it: without the names of forms and without numbers of runs side by side."""
    parts = [part for part in loc if "[" not in str(part)]
    if parts[:1] == ["dynamics"]:
        parts = [part for part in parts if not isinstance(part, int)]
    return tuple(parts)


def _words(faults: list[Any]) -> str:
    first = faults[0]
    if first["type"] == "value_error":
        return first["msg"].removeprefix("Value error, ")
    forms = [
        _WORDS.get(fault["type"]) or fault["msg"].replace("Input should be", "must be")
        for fault in faults
    ]
    said = " or ".join(dict.fromkeys(forms)).replace(" or must be ", " or ")
    move = _MOVES.get(first["type"], "Correct it.")
    if first["type"] == "missing":
        return f"{said}. {move}"
    return f"{said}, got {reprlib.repr(first['input'])}. {move}"
