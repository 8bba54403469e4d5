"""What a simulation spec may say, and which fields each choice needs."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from engram._checks import InputError
from engram.observables import OBSERVABLES

M = TypeVar("M", bound=BaseModel)

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Count = Annotated[int, Field(ge=1)]

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
}
_KIND_NEEDS = {
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
    correlation: Annotated[float, Field(ge=-1, le=1)] | None = None
    p1: Annotated[float, Field(ge=0, le=1)] | None = None
    num_tokens: Count | None = None
    num_classes: Annotated[int, Field(ge=2)] | None = None
    dim: Count | None = None
    exponent: Annotated[float, Field(allow_inf_nan=False)] | None = None
    probs: Literal["uniform", "zipf"] | list[float] | None = None
    targets: Literal["identity", "mod", "random"] | list[int] = "mod"
    seed: Seed = 0
    path: str | None = None

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> "ProblemSpec":
        _require(self, _FAMILY_NEEDS[self.family], f"family {self.family!r}")
        _refuse(self, fields_of_family(self.family), f"family {self.family!r}")
        return self


class DynamicsSpec(Strict):
    """A dynamics by kind: the five of the paper, and optimizers by name."""

    kind: Literal[
        "gd", "flow", "sgd", "sgf",
        "momentum", "nesterov", "normalised", "adam", "adamw", "rmsprop", "sign", "muon",
    ] = "gd"  # fmt: skip
    learning_rate: NotNegative | None = None
    steps: Annotated[int, Field(ge=0)] | None = None
    batch_size: Count | None = None
    end: Positive | None = None
    num_times: Annotated[int, Field(ge=2)] = 200
    spacing: Literal["linear", "log"] = "linear"
    noise_scale: NotNegative | None = None
    time_step: Positive | None = None
    momentum: Annotated[float, Field(ge=0, lt=1)] | None = None
    weight_decay: NotNegative = 0.0
    layer_norm: bool = False

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> "DynamicsSpec":
        needs = _KIND_NEEDS.get(self.kind, ("learning_rate", "steps"))
        _require(self, needs, f"kind {self.kind!r}")
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
    points: Annotated[int, Field(ge=2)] | None = None
    stop: Literal["perfect"] | dict[Literal["loss", "error", "grad_norm"], float] | None = None

    @field_validator("record")
    @classmethod
    def _known(cls, names: list[str]) -> list[str]:
        unknown = [name for name in names if name not in OBSERVABLES]
        if unknown:
            shown = ", ".join(map(repr, unknown))
            raise ValueError(f"unknown observable {shown}; known: {', '.join(OBSERVABLES)}")
        return names


class SimulationSpec(Strict):
    """A whole simulation."""

    problem: ProblemSpec = Field(default_factory=lambda: ProblemSpec(correlation=0.95, p1=0.75))
    dynamics: DynamicsSpec
    run: RunSpec = Field(default_factory=RunSpec)


def _require(spec: BaseModel, names: tuple[str, ...], what: str) -> None:
    missing = [name for name in names if getattr(spec, name) is None]
    if missing:
        raise ValueError(f"{what} needs {', '.join(missing)}")


def _refuse(spec: BaseModel, taken: set[str], what: str) -> None:
    unused = sorted(spec.model_fields_set - taken)
    if unused:
        raise ValueError(f"{what} does not take {', '.join(unused)}")


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"SPEC cannot be read: {path} ({error}). Check the name.") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"SPEC is not TOML: {path}: {error}. Fix that line.") from None


def read_spec(tables: dict[str, Any], source: str) -> SimulationSpec:
    """Check a spec whole; every fault is reported, each with its place and the value met."""
    return validate(SimulationSpec, tables, source, missing=_missing)


def validate(
    model: type[M],
    tables: dict[str, Any],
    source: str,
    missing: Callable[[dict[str, Any]], list[str]] = lambda tables: [],
) -> M:
    """Read tables as a model; every fault is reported at once, each with its place and the value met."""
    try:
        return model.model_validate(tables)
    except ValidationError as error:
        faults = [_describe(fault) for fault in error.errors()] + missing(tables)
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
        (
            "dynamics",
            "kind",
            "gd",
            _KIND_NEEDS | dict.fromkeys(("gd",), ("learning_rate", "steps")),
        ),
    ):
        given = tables.get(table)
        if isinstance(given, dict):
            name = given.get(choice, default)
            wanted = needs.get(name, ()) if isinstance(name, str) else ()
            missing = [field for field in wanted if field not in given]
            if missing:
                found.append(f"{table}: {choice} {name!r} needs {', '.join(missing)}")
    return found


def _describe(fault: Any) -> str:
    place = ".".join(str(part) for part in fault["loc"]) or "spec"
    message = fault["msg"].removeprefix("Value error, ")
    if fault["type"] == "extra_forbidden":
        message = "no such field"
    if fault["type"] in ("missing", "value_error"):
        return f"{place}: {message}"
    text = repr(fault["input"])
    return f"{place}: {message}, got {text if len(text) <= 60 else text[:57] + '...'}"
