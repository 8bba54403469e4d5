"""Pages that are written from the code when the documentation is built: the paper map, the reference, the benchmarks."""

import importlib
import inspect
import json
import re
from pathlib import Path
from typing import Any

from engram.registry import entries

DOCS = Path(__file__).parent
OUT = DOCS / "generated"
TESTS = DOCS.parent / "tests"
# What a user may call, in the order of the reference.
MODULES = {
    "engram.problem": "What is to be remembered",
    "engram.simulation": "Running it",
    "engram.dynamics": "How it moves",
    "engram.observables": "What can be recorded",
    "engram.memory": "The memory, as a matrix",
    "engram.particles": "The memory, as interacting particles",
    "engram.capacity": "What a memory can hold",
    "engram.planes": "Landscapes",
    "engram.theory.binary": "Theory: two classes",
    "engram.theory.multiclass": "Theory: many classes",
    "engram.theory.interference": "Theory: two tokens that interfere",
    "engram.theory.separable": "Theory: where long training ends",
    "engram.theory.spike": "Theory: loss spikes",
    "engram.theory.large_steps": "Theory: large steps",
    "engram.theory.cycles": "Theory: cycles below the edge",
    "engram.theory.printed": "Theory: what is printed and false",
    "engram.audits": "The audit",
    "engram.sweeps": "Sweeps",
    "engram.studies": "Studies",
    "engram.transformer": "The transformer",
    "engram.pictures": "Pictures",
    "engram.figures": "The figures",
    "engram.special": "Numerical tools",
    "engram.system": "What moves",
    "engram.registry": "Names, and names of your own",
}
LABEL = re.compile(r"\b((?:eq|thm|fig|app|proof|sub|ass):[A-Za-z0-9_-]+|\bpb\b)")


def public(module_name: str) -> dict[str, Any]:
    """Functions and classes of a module that are engram's own, by name."""
    module = importlib.import_module(module_name)
    # A package shows what its modules have; a single file shows what it defines.
    is_package = module_name.count(".") == 1 and hasattr(module, "__path__")
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isfunction(value) or inspect.isclass(value) or hasattr(value, "__wrapped__"))
        and getattr(value, "__module__", "").startswith("engram")
        and (is_package or value.__module__ == module_name)
    }


def cited(value: Any) -> list[str]:
    """Labels that a docstring cites after "Paper:"."""
    _, _, tail = (inspect.getdoc(value) or "").partition("Paper:")
    return LABEL.findall(tail)


def tests_of(functions: list[str]) -> list[str]:
    """Test files that call one of the functions by its last two names, such as `memory.grad`."""
    ends = [re.escape(".".join(name.split(".")[-2:])) for name in functions]
    ends += [rf"engram\.{re.escape(name.split('.')[-1])}" for name in functions]
    pattern = re.compile(rf"\b(?:{'|'.join(ends)})\b") if ends else re.compile(r"(?!)")
    files = [path for path in sorted(TESTS.rglob("test_*.py")) if pattern.search(path.read_text())]
    return [str(path.relative_to(TESTS.parent)) for path in files]


def paper_map() -> dict[str, dict[str, Any]]:
    """For every label of the paper: the functions, claims, tests and figures that answer to it."""
    from engram import audits, figures
    from engram._paper import LABELS

    functions: dict[str, list[str]] = {label: [] for label in LABELS}
    for module in MODULES:
        for name, value in public(module).items():
            for label in dict.fromkeys(cited(value)):
                functions[label].append(f"{module}.{name}")
    pictures = {figures.words()[name]["label"]: name for name in figures.FIGURES}
    claims: dict[str, list[str]] = {label: [] for label in LABELS}
    for claim in audits.select(None):
        for label in LABEL.findall(claim.label):
            claims[label].append(claim.id)
    return {
        label: {
            "entry": entry,
            "functions": functions[label],
            "claims": claims[label],
            "tests": tests_of(functions[label])
            + (["tests/audits/test_verdicts.py"] if claims[label] else [])
            + (["tests/figures/test_figures.py"] if label in pictures else []),
            "figure": pictures.get(label),
        }
        for label, entry in LABELS.items()
    }


def write_paper_map() -> None:
    lines = [
        "# Paper map",
        "",
        "Every label of the paper, and where it lives here: functions whose docstring cites it, claims of the "
        "[audit](../audit.md), tests that call them, and the figure. Written from the code when this page is built.",
        "",
    ]
    nothing = []
    for label, row in paper_map().items():
        entry = row["entry"]
        if not (row["functions"] or row["claims"] or row["figure"]):
            nothing.append(f"`{label}` ({entry.meaning})")
            continue
        functions = [
            f"{{py:obj}}`{name.removeprefix('engram.')} <{name}>`" for name in row["functions"]
        ]
        tests = [f"`{name.removeprefix('tests/')}`" for name in row["tests"]]
        figure = [f"[{row['figure']}](../figures.md)"] if row["figure"] else []
        lines += [
            f"**{entry.number}** `{label}`: {entry.meaning}"
            if entry.number
            else f"`{label}`: {entry.meaning}"
        ]
        parts = {"functions": functions, "claims": row["claims"], "tests": tests, "figure": figure}
        lines += [f": *{name}*: {', '.join(found)}\n" for name, found in parts.items() if found]
    lines += ["", f"Labels that need no code of their own: {', '.join(nothing)}.", ""]
    (OUT / "paper-map.md").write_text("\n".join(lines), encoding="utf-8")


def write_reference() -> None:
    pages, shown = [], set()
    for module, title in MODULES.items():
        names = public(module)
        if not names:
            continue
        page = module.removeprefix("engram.").replace(".", "-")
        pages.append(page)
        text = (importlib.import_module(module).__doc__ or "").strip()
        lines = [f"# {title}: `{module}`", "", text, "", "```{eval-rst}"]
        for name, value in names.items():
            kind = "autoclass" if inspect.isclass(value) else "autofunction"
            options = ["   :members:"] if kind == "autoclass" else []
            # The index leads to the first of several modules that have it.
            options += ["   :no-index:"] if id(value) in shown else []
            shown.add(id(value))
            # Fields of a tuple are described in its docstring, if they need it.
            options += (
                [f"   :exclude-members: {', '.join(value._fields)}"]
                if hasattr(value, "_fields")
                else []
            )
            lines += [f".. {kind}:: {module}.{name}", *options, ""]
        lines += ["```", ""]
        (OUT / f"{page}.md").write_text("\n".join(lines), encoding="utf-8")
    top = "Names that `engram` itself has (`engram.simulate`, `engram.Problem` and so on) are found under their modules."
    lines = ["# Reference", "", top, "", "```{toctree}", ":maxdepth: 1", "", *pages, "```", ""]
    (OUT / "reference.md").write_text("\n".join(lines), encoding="utf-8")


def write_benchmarks() -> None:
    """The tables of the performance page, from what `engram bench --json` printed on the reference machine."""
    lines = [
        "| work | one unit | engram, units/s | peer, units/s | against | ratio | of limit |",
        "| --- | --- | ---: | ---: | --- | ---: | ---: |",
    ]
    for row in json.loads((DOCS / "bench.json").read_text()):
        peer = "" if row["peer"] is None else f"{row['peer']:,.4g} ±{row['peer_spread'] / 2:.0%}"
        ratio = (
            "" if row["ratio"] is None else f"**{row['ratio']:,.{2 if row['ratio'] < 10 else 0}f}**"
        )
        limit = "" if row["limit_fraction"] is None else f"{row['limit_fraction']:.0%}"
        ours = f"{row['engram']:,.4g} ±{row['spread'] / 2:.0%}"
        unit = row["work"] + (f" ({row['note']})" if "peak" in row["note"] else "")
        lines.append(
            f"| `{row['name']}` | {unit} | {ours} | {peer} | {row['against']} | {ratio} | {limit} |"
        )
    (OUT / "bench-table.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    lines = [
        "| work | fixed | time grows like | operations grow like |",
        "| --- | --- | --- | --- |",
    ]
    for row in json.loads((DOCS / "growth.json").read_text()):
        size, fit = row["size"], f"{row['exponent']:.2f} ± {row['error']:.2f}"
        lines.append(
            f"| {row['name']} | {row['fixed']} | {size}^({fit}) | {size}^{row['counted']:.2f} |"
        )
    (OUT / "growth-table.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


# Kinds of names, in the order of a spec, with what a table of each looks like.
KINDS = {
    "problem": "Problems: `[problem]` with `family`",
    "system": "Systems: `[system]` with `kind`",
    "dynamics": "Dynamics: `[dynamics]` with `kind`",
    "optimizer": 'Optimizers: `kind`, or `optimizer` of `kind = "descent"`',
    "practical": "With an optimizer's name as `kind`, also",
    "sampling": "Samplings: `sampling` beside an optimizer",
    "schedule": "Schedules: `learning_rate = { schedule = ... }`",
    "observable": "Observables: `record` of `[run]`",
    "event": "Events: `events` of `[run]`",
    "run": "The table `[run]`",
    "transformer": "The table `[transformer]` of a training",
    "study": "Studies: `[study]` with `name`",
}


def names_page() -> str:
    """Everything that has a name, with its fields, from the registry."""
    lines = [
        "# Names and fields",
        "",
        "What specs, options, files and the explorer know by name; made from the registry.",
        "",
    ]
    for kind, title in KINDS.items():
        lines += [f"## {title}", "", "| name | what | fields |", "| --- | --- | --- |"]
        for name, entry in entries(kind).items():
            fields = "; ".join(_field(*item) for item in entry.fields.items())
            lines.append(f"| `{name}` | {entry.help.replace('|', '&#124;')} | {fields} |")
        lines.append("")
    return "\n".join(lines)


def _field(name: str, field: Any) -> str:
    low, high = field.bounds
    high = (
        None if high is not None and high >= 2**24 else high
    )  # a limit of the machine, not of the thing
    parts = [f"`{name}`: {field.help.rstrip('.').replace('|', '&#124;')}"]
    parts += (
        [f"from {low}"]
        if low is not None
        else [f"above {field.above}"]
        if field.above is not None
        else []
    )
    parts += (
        [f"to {high}"]
        if high is not None
        else [f"below {field.below}"]
        if field.below is not None
        else []
    )
    parts += (
        ["required"]
        if field.is_required
        else [f"by default `{field.default}`"]
        if field.default is not None
        else []
    )
    return ", ".join(parts)


def write_pages(*_: Any) -> None:
    OUT.mkdir(exist_ok=True)
    write_paper_map()
    write_reference()
    write_benchmarks()
    (OUT / "names.md").write_text(names_page() + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_pages()
