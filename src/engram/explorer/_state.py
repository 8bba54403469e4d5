"""What the page may ask for: every number bounded, every name known. The page's URL holds the same."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from engram._checks import InputError

MOST_TOKENS = 50
MOST_STEPS = 20_000
MOST_RUNS = 4
DENSE_STEPS = 1000  # up to here every step is recorded
FEW_STEPS = 400  # recorded, evenly on a logarithmic scale, beyond

Seed = Annotated[int, Field(ge=0, lt=2**31)]
Rate = Annotated[float, Field(ge=1e-6, le=1e6, allow_inf_nan=False)]
Coordinate = Annotated[float, Field(ge=-1e4, le=1e4, allow_inf_nan=False)]

Method = Literal[
    "gd", "flow", "sgd", "momentum", "nesterov", "adam", "rmsprop", "normalised", "sign"
]
Draw = Literal[
    "fig4-39", "fig4-81", "fig4-7", "fig4-9", "fig4-sgd", "fig6-3", "fig6-5", "fig6-10"
]  # fmt: skip


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Two(Part):
    """Two tokens of a correlation, each with its own class."""

    kind: Literal["two"]
    correlation: Annotated[float, Field(ge=-1, le=1)]
    p1: Annotated[float, Field(ge=0, le=1)]


class Sphere(Part):
    """Embeddings drawn on the unit sphere."""

    kind: Literal["sphere"]
    tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)]
    classes: Annotated[int, Field(ge=2, le=10)]
    dim: Annotated[int, Field(ge=2, le=32)]
    exponent: Annotated[float, Field(ge=0, le=4)]
    seed: Seed


class Paper(Part):
    """A draw of the paper's authors."""

    kind: Literal["paper"]
    name: Draw


class Token(Part):
    """A token of the plane: where it points, its class and how often it comes."""

    x: Coordinate
    y: Coordinate
    target: Annotated[int, Field(ge=0, le=1)]
    prob: Annotated[float, Field(ge=0, le=1)]


class Table(Part):
    """Tokens of the plane, written out; outputs are the canonical basis."""

    kind: Literal["table"]
    tokens: Annotated[list[Token], Field(min_length=1, max_length=MOST_TOKENS)]


class Own(Part):
    """A problem that the user's own Python session has handed over."""

    kind: Literal["own"]
    name: Annotated[str, Field(pattern=r"^[0-9a-f]{8}$")]


class Change(Part):
    """Another learning rate from a step on."""

    step: Annotated[int, Field(ge=1, le=MOST_STEPS)]
    rate: Rate


class Run(Part):
    """One dynamics with its learning rate."""

    method: Method
    rate: Rate
    changes: Annotated[list[Change], Field(max_length=4)] = []
    batch: Literal[1, 4, 16, 64] = 4
    seed: Seed = 0

    @model_validator(mode="after")
    def _changes_make_sense(self) -> "Run":
        if self.changes and self.method != "gd":
            raise ValueError("only gradient descent (gd) can change its learning rate on the way")
        steps = [change.step for change in self.changes]
        if steps != sorted(set(steps)):
            raise ValueError(f"changes must come at increasing steps, got {steps}")
        return self


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

    problem: Annotated[Two | Sphere | Paper | Table | Own, Field(discriminator="kind")]
    runs: Annotated[list[Run], Field(min_length=1, max_length=MOST_RUNS)]
    steps: Annotated[int, Field(ge=1, le=MOST_STEPS)]
    start: Start = Start()
    view: View = View()


class Request(Part):
    """A state, who asks, and which parts are wanted."""

    client: Annotated[str, Field(pattern=r"^[0-9a-zA-Z-]{1,40}$")]
    parts: Annotated[list[Literal["plane", "runs"]], Field(min_length=1, max_length=2)]
    state: State


def read_request(text: bytes) -> Request:
    """A request from JSON, or an error that says what to change."""
    try:
        return Request.model_validate_json(text)
    except ValidationError as error:
        raise InputError(_in_words(error)) from None


def _in_words(error: ValidationError) -> str:
    faults = []
    for fault in error.errors(include_url=False)[:3]:
        kinds = {"two", "sphere", "paper", "table", "own"}
        names = [str(name) for name in fault["loc"] if name not in kinds]
        where = ".".join(name for name in names if name != "state") or "the request"
        said = fault["msg"].removeprefix("Value error, ")
        said = said[0].lower() + said[1:]
        faults.append(f"{_cut(where, 80)}: {_cut(said, 200)}, got {_cut(repr(fault['input']), 40)}")
    return "; ".join(faults) + "."


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."
