"""What the page may ask for: every number bounded, every name known. The page's URL holds the same."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    model_validator,
)

from engram._checks import InputError
from engram.explorer._controls import (
    MOST_STEPS,
    RATES,
    SEEDS,
    SIZES,
    WRITTEN,
    hidden_fields,
    names_for,
    out_of_bounds,
)
from engram.registry import CHOOSERS, Entry, fields_of, names_of, used_in
from engram.specs import Faults, read_table

MOST_RUNS = 4
MOST_EXTRA = 4  # traces and events beside those that are always there
DENSE_STEPS = 1000  # up to here every step is recorded
FEW_STEPS = 400  # recorded, evenly on a logarithmic scale, beyond
_LONGEST = 200  # characters of a text
_DEEPEST = 4  # levels of lists in a table
_CHOSEN = ("kind", "optimizer", "sampling")  # of a dynamics

Seed = Annotated[int, Field(ge=SEEDS[0], le=SEEDS[1])]
Rate = Annotated[float, Field(ge=RATES[0], le=RATES[1], allow_inf_nan=False)]
Coordinate = Annotated[float, Field(ge=-1e4, le=1e4, allow_inf_nan=False)]


class Part(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True, strict=True)


# --- tables of the registry -----------------------------------------------------------------------------


class Refused(ValueError):
    """What is wrong with a table: each fault begins with its field."""

    def __init__(self, *faults: str):
        super().__init__("; ".join(faults))
        self.faults = faults


def _read_table(
    kind: str, given: dict[str, Any], supplied: Mapping[str, Any] = {}
) -> dict[str, Any]:
    """A table, checked by the registry's fields and the page's bounds, with the fields that were given."""
    _refuse(_too_large(given))
    chooser = CHOOSERS.get(kind, "kind")
    name = given.get(chooser)
    if name in names_of(kind):
        if name not in names_for(kind):
            raise Refused(f".{chooser}: {name!r} cannot be chosen here. Pick another.")
        hidden = [field for field in hidden_fields(kind, name) if field in given]
        _refuse(f".{field}: is set by the page. Leave it out." for field in hidden)
    faults = Faults("the request")
    table = read_table(kind, {**supplied, **given}, faults)
    _refuse(re.sub(r"^\w+", "", line) for line in faults.lines)  # where the table stands is known
    bounds = out_of_bounds(fields_of(kind, table), table)
    _refuse(f".{field}: {words}" for field, words in bounds if field in given)
    return {field: table[field] for field in given if field in table}


def _refuse(faults: Iterable[str]) -> None:
    if faults := list(faults):
        raise Refused(*faults)


def _too_large(given: Any, depth: int = 0) -> Iterator[str]:
    """The faults of long texts and deep lists."""
    for item in given.values() if isinstance(given, dict) else given:
        if isinstance(item, str) and len(item) > _LONGEST:
            yield f": a text must have at most {_LONGEST} characters, got {len(item)}."
        if isinstance(item, list | dict) and depth == _DEEPEST:
            yield ": a field nests too deep. Write fewer levels."
        elif isinstance(item, list | dict):
            yield from _too_large(item, depth + 1)


# --- problems -------------------------------------------------------------------------------------------

_OLD = {"tokens": "num_tokens", "classes": "num_classes"}  # as older links have them


def _read_family(given: dict[str, Any]) -> dict[str, Any]:
    given = {_OLD.get(name, name): value for name, value in given.items()}
    kind = given.pop("kind", "two")
    table = _read_table("problem", {"family": kind} | given)
    # What a function calls otherwise, a key for a seed, has no default there.
    fields = fields_of("problem", table).items()
    usual = {name: field.default for name, field in fields if field.argument}
    return usual | table


class Family(Part):
    """A problem of a registered family."""

    kind: Literal["family"] = "family"
    table: Annotated[dict[str, Any], AfterValidator(_read_family)]

    @model_validator(mode="before")
    @classmethod
    def _as_table(cls, given: Any) -> Any:
        return {"table": given}


class Paper(Part):
    """A draw of the paper's authors."""

    kind: Literal["paper"]
    name: Literal[
        "fig4-39", "fig4-81", "fig4-7", "fig4-9", "fig4-sgd", "fig6-3", "fig6-5", "fig6-10"
    ]  # fmt: skip


class Token(Part):
    """A token of the plane: where it points, its class and how often it comes."""

    x: Coordinate
    y: Coordinate
    target: Annotated[int, Field(ge=0, le=1)]
    prob: Annotated[float, Field(ge=0, le=1)]


class Table(Part):
    """Tokens of the plane, written out; outputs are the canonical basis."""

    kind: Literal["table"]
    tokens: Annotated[list[Token], Field(min_length=1, max_length=SIZES["num_tokens"])]


class Own(Part):
    """A problem that the user's own Python session has handed over."""

    kind: Literal["own"]
    name: Annotated[str, Field(pattern=r"^[0-9a-f]{8}$")]


class Replay(Part):
    """A run or a recording from a file, shown as it was recorded."""

    kind: Literal["replay"]
    name: Annotated[str, Field(pattern=r"^[0-9a-f]{8}$")]


def _problem_tag(given: Any) -> str:
    kind = given.get("kind") if isinstance(given, dict) else getattr(given, "kind", None)
    return kind if kind in WRITTEN else "family"


Problem = Annotated[
    Annotated[Paper, Tag("paper")]
    | Annotated[Table, Tag("table")]
    | Annotated[Own, Tag("own")]
    | Annotated[Replay, Tag("replay")]
    | Annotated[Family, Tag("family")],
    Discriminator(_problem_tag),
]


class Change(Part):
    """Another learning rate from a step on."""

    step: Annotated[int, Field(ge=1, le=MOST_STEPS)]
    rate: Rate


def _read_dynamics(given: dict[str, Any]) -> dict[str, Any]:
    """A table without what the page fills in: steps, or times."""
    fields = _fields_of(given)
    usual = {"times": [0.0, 1.0]} if "times" in fields else {"steps": 1}
    return _read_table("dynamics", given, {name: usual[name] for name in usual if name in fields})


def _fields_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that a table may have, as far as what it chooses is known."""
    names = {name: given[name] for name in _CHOSEN if isinstance(given.get(name), str)}
    return fields_of("dynamics", names) if names.get("kind") in names_of("dynamics") else {}


class Run(Part):
    """One dynamics: its table, without what the page fills in; its noise; rates that change during the run.

    Flows have no learning rate: with them it is the time that a step stands for.
    """

    table: Annotated[dict[str, Any], AfterValidator(_read_dynamics)]
    step_time: float | None = None
    changes: Annotated[list[Change], Field(max_length=4)] = []
    seed: Seed = 0

    @model_validator(mode="before")
    @classmethod
    def _split(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        table = {"kind": "gd"} | _from_older_link(given)
        own = {name: table.pop(name) for name in ("changes", "seed") if name in table}
        fields = _fields_of(table)
        if "times" in fields and "learning_rate" not in fields:
            own["step_time"] = _check_rate(table.pop("learning_rate", None))
        if "seed" in fields:
            table["seed"] = own.get("seed", 0)
        return {**own, "table": table}

    @model_validator(mode="after")
    def _changes_make_sense(self) -> "Run":
        field = _fields_of(self.table).get("learning_rate")
        if self.changes and (field is None or list[float] not in field.forms or self.rate is None):
            raise Refused(
                f".changes: the learning rate of {self.kind} cannot change during the run."
            )
        steps = [change.step for change in self.changes]
        if steps != sorted(set(steps)):
            raise Refused(f".changes: must come at increasing steps, got {steps}.")
        return self

    @property
    def kind(self) -> str:
        return self.table["kind"]

    @property
    def rate(self) -> float | None:
        """The learning rate, if it is one number."""
        rate = self.table.get("learning_rate", self.step_time)
        return rate if isinstance(rate, float) else None


def _from_older_link(given: dict[str, Any]) -> dict[str, Any]:
    """A run as older links have it: a method, its rate, the size of its batches."""
    if "method" not in given:
        return given
    old = {"method": "kind", "rate": "learning_rate", "batch": "batch_size"}
    table = {old.get(name, name): value for name, value in given.items()}
    if table["kind"] == "sgd":
        return {"batch_size": 4} | table
    return {name: value for name, value in table.items() if name != "batch_size"}


def _check_rate(rate: Any) -> float:
    if type(rate) not in (int, float) or not RATES[0] <= rate <= RATES[1]:
        words = f"must be a number from {RATES[0]} to {RATES[1]:g}, got {rate!r}. Choose another."
        raise Refused(f".learning_rate: {words}")
    return float(rate)


def _named(kind: str) -> Any:
    """A name, or a table with a name and fields."""
    as_table = lambda given: {"kind": given} if isinstance(given, str) else given
    read = lambda given: _read_table(kind, given)
    item = Annotated[dict[str, Any], BeforeValidator(as_table), AfterValidator(read)]
    return Annotated[list[item], Field(max_length=MOST_EXTRA)]


def _read_system(given: dict[str, Any]) -> dict[str, Any]:
    return _read_table("system", {"kind": "memory"} | given)


# --- the state ------------------------------------------------------------------------------------------


class Start(Part):
    """Where training starts: a point of the plane, or beyond it random weights of a scale."""

    a: Coordinate = 0.0
    b: Coordinate = 0.0
    scale: Annotated[float, Field(ge=0, le=100)] = 0.0
    seed: Seed = 0


class View(Part):
    """Which part of the plane is shown, and what is laid over it."""

    x: Coordinate = 0.0
    y: Coordinate = 0.0
    half: Annotated[float, Field(ge=0.01, le=1e4)] = 10.0
    overlay: Literal["none", "sharpness", "gradient"] = "none"


class State(Part):
    """All that decides the numbers on the page."""

    problem: Problem
    system: Annotated[dict[str, Any], AfterValidator(_read_system)] = {"kind": "memory"}
    runs: Annotated[list[Run], Field(min_length=1, max_length=MOST_RUNS)]
    steps: Annotated[int, Field(ge=1, le=MOST_STEPS)]
    start: Start = Start()
    view: View = View()
    record: _named("observable") = []  # pyright: ignore[reportInvalidTypeForm]
    events: _named("event") = []  # pyright: ignore[reportInvalidTypeForm]

    @property
    def is_plain(self) -> bool:
        """Whether what moves is the matrix W with nothing around it."""
        return self.system["kind"] == "memory" and not self.system.get("layer_norm")


def entries_of(state: State) -> list[Entry]:
    """Everything that a state names."""
    tables: dict[str, Any] = {"system": state.system}
    tables["run"] = {"record": state.record, "events": state.events}
    if isinstance(state.problem, Family):
        tables["problem"] = state.problem.table
    return [each for run in state.runs for each in used_in(tables | {"dynamics": run.table})]


class Request(Part):
    """A state, who asks, and which parts are wanted: those that may take long are best asked for alone.

    `pushes` are those of the update after `step` of the run with the number `run`.
    """

    client: Annotated[str, Field(pattern=r"^[0-9a-zA-Z-]{1,40}$")]
    parts: Annotated[
        list[Literal["plane", "runs", "sharpness", "causes", "pushes"]],
        Field(min_length=1, max_length=5),
    ]
    state: State
    step: Annotated[int, Field(ge=0, le=MOST_STEPS)] = 0
    run: Annotated[int, Field(ge=0, lt=MOST_RUNS)] = 0


def read_request(text: bytes) -> Request:
    """A request from JSON, or an error that says what to change."""
    try:
        return Request.model_validate_json(text)
    except ValidationError as error:
        raise InputError(_in_words(error)) from None


def read_state(given: Mapping[str, Any]) -> Request:
    """A request for all that a preset shows."""
    state = State.model_validate({name: given[name] for name in given if name != "show"})
    return Request(client="preset", parts=["plane", "runs"], state=state)


def _in_words(error: ValidationError) -> str:
    faults = []
    for fault in error.errors(include_url=False)[:3]:
        names = [str(name) for name in fault["loc"] if name not in ("family", *WRITTEN, "table")]
        where = _cut(".".join(name for name in names if name != "state") or "the request", 80)
        refused = fault.get("ctx", {}).get("error")
        if isinstance(refused, Refused):
            faults += [f"{where}{_cut(' '.join(each.split()), 400)}" for each in refused.faults[:3]]
            continue
        words = fault["msg"].removeprefix("Value error, ")
        words = words[0].lower() + words[1:]
        faults.append(f"{where}: {_cut(words, 200)}, got {_cut(repr(fault['input']), 40)}.")
    return "; ".join(faults)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."
