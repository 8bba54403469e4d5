"""study: the verb. It asks the question of a study, and writes what comes of it."""

import dataclasses
import json
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import xarray as xr
from matplotlib.figure import Figure

import engram
from engram._checks import InputError
from engram._files import changes_between, clear_leftovers, toml_value, written_whole
from engram._machine import commit, machine, versions
from engram._pages import Section, write_page
from engram._precision import in_double
from engram.registry import entry_of, fields_of, load_entry_points, make, table
from engram.specs import Faults, read_table, read_toml
from engram.studies._study import AbstractStudy, Row
from engram.studies._work import Report, Work


@dataclasses.dataclass(frozen=True)
class StudyResult:
    """What a study found.

    Args:
        study: The study, with its settings.
        data: Its parts by name.
        rows: Numbers beside those that are known.
        findings: What the numbers say.
        figure: The picture.
        files: What was written.
        reused: Parts that were kept from before.
        seconds: How long it took this time.
    """

    study: AbstractStudy
    data: Mapping[str, xr.Dataset]
    rows: list[Row]
    findings: list[str]
    figure: Figure
    files: list[Path]
    reused: list[str]
    seconds: float

    @property
    def is_met(self) -> bool:
        """Whether every known number is met."""
        return all(row.is_met is not False for row in self.rows)

    def __str__(self) -> str:
        return "\n".join([self.study.title, *(f"- {each}" for each in self.findings)])


def study(
    what: str | Path | Mapping[str, Any] | AbstractStudy,
    *,
    tiny: bool = False,
    out: str | Path | None = None,
    progress: Report | None = None,
    **settings: Any,
) -> StudyResult:
    """Ask the question of a study: compute, compare with what is known, and draw.

    Args:
        what: The name of a study, the path of a TOML spec, a table, or a study.
        tiny: Whether to begin from settings with which it takes seconds, too few for most conclusions.
        out: A folder for the page, the picture, the numbers and all data. If it holds the same study,
            what is missing is computed.
        progress: Called with the name of a part, how much of it is done, and of how much.
        settings: Settings of the study by name, instead of their defaults.

    Returns:
        Data, comparisons, findings and the picture.
    """
    asked = what if isinstance(what, AbstractStudy) else read_study(what, tiny=tiny, **settings)
    if asked is what and (settings or tiny):
        raise InputError("`what` has its settings already. Change them there, or give its name.")
    began, folder = time.perf_counter(), None if out is None else Path(out)
    if folder is not None:
        _claim(folder, asked)
    work = Work(None if folder is None else folder / "parts", progress)
    data = _compute(asked, work)
    rows, findings, figure = asked.compare(data), asked.findings(data), asked.draw(data)
    seconds = time.perf_counter() - began
    result = StudyResult(asked, data, rows, findings, figure, [], work.reused, seconds)
    if folder is None:
        return result
    return dataclasses.replace(result, files=_write(result, folder))


@in_double
def _compute(asked: AbstractStudy, work: Work) -> dict[str, xr.Dataset]:
    return asked.compute(work)


def read_study(
    what: str | Path | Mapping[str, Any], *, tiny: bool = False, **settings: Any
) -> AbstractStudy:
    """A study from its name, a TOML spec or a table, with some of its settings replaced."""
    load_entry_points()
    source = "the settings"
    if isinstance(what, Mapping):
        given = dict(what)
    elif str(what).endswith(".toml"):
        if tiny:
            raise InputError(
                "`tiny` begins from a study's own settings, and a spec has its own. Leave one out."
            )
        source, tables = str(what), read_toml(Path(what))
        faults = Faults(source)
        faults.unknown(tables, ["study"])
        faults.check()
        given = tables.get("study", {})
    else:
        given = {"name": str(what)}
    faults = Faults(source)
    if not isinstance(given, dict) or "name" not in given:
        faults.add("study", f"must be a table with `name`, got {given!r}. Name a study.")
        faults.check()
    read_table("study", {"name": given["name"]}, faults)
    faults.check()
    usual = entry_of("study", given["name"]).load().tiny if tiny else {}
    complete = read_table("study", given | dict(usual) | settings, faults)
    for name, value in complete.items():
        if value == [] and name not in entry_of("study", given["name"]).load().optional:
            faults.add(f"study.{name}", "must not be empty, got []. Give one value at least.")
    faults.check()
    return make("study", complete)


def spec_text(asked: AbstractStudy) -> str:
    """A study as a TOML spec, each setting with its meaning; `engram study SPEC.toml` asks it again."""
    plain = table(asked)
    fields = fields_of("study", plain)
    lines = [f"# {asked.title}", "[study]"]
    for name, value in plain.items():
        meaning = f"  # {fields[name].help}" if name in fields and fields[name].help else ""
        lines.append(f"{name} = {toml_value(value)}{meaning}")
    return "\n".join(lines) + "\n"


def _claim(folder: Path, asked: AbstractStudy) -> None:
    """Refuse a folder that holds another study; otherwise say in it which one this is."""
    name, spec = str(asked.settings()["name"]), folder / "study.toml"
    clear_leftovers(folder, ["study", name])
    if spec.exists() and any(folder.glob("parts/*")):  # else nothing would be lost
        try:
            before = read_toml(spec).get("study", {})
        except InputError as error:
            raise InputError(
                f"`out` holds a study whose settings cannot be read: {error} Name another folder."
            ) from None
        if changed := changes_between(before, table(asked), "there"):
            raise InputError(
                f"`out` holds a study with other settings: {folder} ({'; '.join(changed)}). Name another "
                "folder."
            )
        return
    with written_whole(spec) as partial:
        partial.write_text(spec_text(asked), encoding="utf-8")


def _write(result: StudyResult, folder: Path) -> list[Path]:
    """The page, the picture and the numbers, each whole or not at all."""
    asked = result.study
    name = str(asked.settings()["name"])
    files = [folder / f"{name}{suffix}" for suffix in (".html", ".png", ".pdf", ".json")]
    date: Any = {"CreationDate": None}  # the same study is the same file
    with written_whole(files[1]) as png, written_whole(files[2]) as pdf:
        result.figure.savefig(png, dpi=200)
        result.figure.savefig(pdf, metadata=date)
    record = {
        "study": table(asked),
        "rows": [
            {**dataclasses.asdict(row), "low": row.interval[0], "high": row.interval[1], "is_met": row.is_met}
            for row in result.rows
        ],
        "findings": result.findings,
        "versions": versions(),
        "commit": commit(),
    }  # fmt: skip
    with written_whole(files[3]) as partial:
        text = json.dumps(_finite(record), indent=2, ensure_ascii=False, allow_nan=False)
        partial.write_text(text + "\n", encoding="utf-8")
    write_page(files[0], asked.title, asked.question, _sections(result))
    return files


def _finite(value: Any) -> Any:
    """With null for numbers that are not finite, which JSON does not have."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _sections(result: StudyResult) -> list[Section]:
    asked = result.study
    made = {**machine(), **versions(), "commit": commit()}
    settings = [(name, toml_value(value)) for name, value in table(asked).items()]
    return [
        Section("What we find", result.findings, result.figure),
        Section("Numbers", heads=HEADS, rows=[cells(row) for row in result.rows]),
        Section("What is known", asked.known),
        Section("What is open", asked.open),
        Section("Settings", heads=("setting", "value"), rows=settings),
        Section("Made with", [f"engram {engram.__version__}, in {result.seconds:.0f} s this time"],
                rows=[(name, value) for name, value in made.items() if value], heads=("what", "version")),
    ]  # fmt: skip


HEADS = ("quantity", "ours", "95 % interval", "known", "met", "source")


def cells(row: Row) -> tuple[str, ...]:
    """A row of the table of numbers, as text."""
    low, high = row.interval
    known = "" if row.reference is None else f"{row.reference:.4g}"
    known += f" ± {row.error:.2g}" if known and row.error else ""
    interval = "" if low == high else f"{low:.4g} to {high:.4g}"
    met = {None: "", True: "yes", False: "no"}[row.is_met]
    return row.quantity, f"{row.ours:.4g}", interval, known, met, row.source
