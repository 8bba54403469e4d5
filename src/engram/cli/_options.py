"""Options made from the registry: one for each field that a table of a spec may have."""

import dataclasses
import inspect
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args, get_origin

import typer

from engram._errors import InputError
from engram.registry import Field, entries, load_plugin, names_of

_NAMES = {"family": "tokens", "path": "problem_file", "events": "event"}  # as they are typed
_CHOOSERS = {"problem": "family", "dynamics": "kind", "system": "kind"}
_SHORT = {"num_tokens": "-N", "num_classes": "-M", "dim": "-d", "learning_rate": "-r", "steps": "-t",
          "sequences": "-S", "length": "-T"}  # fmt: skip


def _load_plugins(sources: list[str] | None) -> list[str] | None:
    """Load what a command was given as --plugin, before anything else is read."""
    for source in sources or ():
        load_plugin(source)
    return sources


Plugin = Annotated[list[str] | None, typer.Option(callback=_load_plugins, help="A module, or FILE.py, that registers names of your own; repeat for more.", rich_help_panel="Your own")]  # fmt: skip
Set = Annotated[list[str] | None, typer.Option("--set", metavar="TABLE.FIELD=VALUE", help="Any field of a table, as TOML has it; repeat for more.", rich_help_panel="Your own")]  # fmt: skip


class _Option(NamedTuple):
    """An option: the table and the field that it fills, and how its text is read."""

    table: str
    field: str
    about: Field


def with_options(*kinds: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for each field of these tables; it gets what was typed as `tables`."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = {
            name: parameter
            for name, parameter in inspect.signature(command).parameters.items()
            if name != "tables"
        }
        options = _options(kinds)
        made = {name: _parameter(name, option) for name, option in options.items()}

        def run(**values: Any) -> None:
            values.pop("plugin", None)  # loaded
            typed = {name: values.pop(name) for name in options}
            tables = _tables(options, typed)
            _set(tables, values.pop("set_", None) or ())
            command(tables=tables, **values)

        run.__name__, run.__doc__ = command.__name__, command.__doc__
        parameters = {**own, **made}
        run.__signature__ = inspect.Signature(list(parameters.values()))
        run.__annotations__ = {name: each.annotation for name, each in parameters.items()}
        return run

    return decorate


def _options(kinds: tuple[str, ...]) -> dict[str, _Option]:
    """The options of tables by name."""
    found: dict[str, _Option] = {}
    for kind in kinds:
        if kind in _CHOOSERS:
            chooser = _CHOOSERS[kind]
            name = "tokens" if kind == "problem" else kind
            names = ", ".join(names_of(kind))
            found[name] = _Option(kind, chooser, Field(f"One of {names}.", type=str))
        inside = (kind, "practical", "optimizer", "sampling") if kind == "dynamics" else (kind,)
        for each in inside:
            for entry in entries(each).values():
                for field, about in entry.fields.items():
                    if not _is_short(about) or (field == "seed" and kind != kinds[-1] == "run"):
                        continue  # one --seed is that of the run, and of all in it
                    name = _NAMES.get(field, field)
                    before = found.setdefault(name, _Option(kind, field, about))
                    if before.about.default != about.default:  # there is no usual value
                        found[name] = before._replace(
                            about=dataclasses.replace(before.about, default=None)
                        )
        if kind == "dynamics":
            found["sampling"] = _Option(kind, "sampling", Field(f"What a step sees: {', '.join(entries('sampling'))}.", type=str))  # fmt: skip
            found["optimizer"] = _Option(
                kind, "optimizer", Field("Of --dynamics descent.", type=str)
            )
    return found


def _is_short(field: Field) -> bool:
    """Whether its value can be typed: not a list of lists, nor a long one."""
    return not any(
        get_origin(form) is list
        and (get_origin(get_args(form)[0]) is list or get_args(form)[0] is Any)
        for form in field.forms
    )


def _parameter(name: str, option: _Option) -> inspect.Parameter:
    kind, default = _type_of(option.about), None
    flags = [f"--{name.replace('_', '-')}"]
    if kind is bool:
        flags = [f"{flags[0]}/--no-{name.replace('_', '-')}"]
    if name in _SHORT:
        flags.append(_SHORT[name])
    help = option.about.help
    if option.about.default not in (None, []) and not option.about.is_required and kind is not bool:
        shown = option.about.default
        shown = ",".join(map(str, shown)) if isinstance(shown, list) else shown
        help = f"{help} Default {shown}."
    hint = typer.Option(*flags, help=help, rich_help_panel=option.table.capitalize())
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind | None, hint],
    )


def _type_of(field: Field) -> Any:
    """What typer reads; text where there are several forms, or several numbers."""
    forms = field.forms
    if len(forms) == 1 and forms[0] in (bool, int, float):
        return forms[0]
    return list[str] if _is_names(field) else str


def _is_names(field: Field) -> bool:
    """Whether it is a list of names, which may be given one by one."""
    return any(
        get_origin(form) is list and str in get_args(get_args(form)[0]) for form in field.forms
    )


def _tables(options: dict[str, _Option], typed: dict[str, Any]) -> dict[str, dict[str, Any]]:
    tables: dict[str, dict[str, Any]] = {}
    for name, value in typed.items():
        if value is None or value == []:
            continue
        table, field, about = options[name]
        tables.setdefault(table, {})[field] = _read(name, value, about)
    return tables


def _read(name: str, value: Any, field: Field) -> Any:
    """What was typed, in the form that its field has: numbers with commas are a list."""
    if not isinstance(value, str):
        return value
    lists = [form for form in field.forms if get_origin(form) is list]
    tables = [form for form in field.forms if get_origin(form) is dict]
    if value in field.choices or not (lists or tables):
        return value
    try:
        if tables and (not lists or "=" in value):
            key, _, bound = value.partition("=")
            return {key: float(bound)}
        whole = get_args(lists[0])[0] is int
        words = [part.strip() for part in value.split(",")]
        if get_args(lists[0])[0] not in (int, float):
            return words
        numbers = [int(part) if whole else float(part) for part in words]
    except ValueError:
        options = f"one of {', '.join(map(str, field.choices))}, or " if field.choices else ""
        form = "a number, or numbers with commas between" if lists else "NAME=NUMBER"
        raise InputError(
            f"--{name.replace('_', '-')} must be {options}{form}, got {value!r}."
        ) from None
    return numbers if len(numbers) > 1 or float not in field.forms else numbers[0]


def _set(tables: dict[str, dict[str, Any]], given: list[str] | tuple[str, ...]) -> None:
    """Take in `TABLE.FIELD=VALUE`; a value that is not TOML is a text."""
    for text in given:
        place, sign, value = text.partition("=")
        table, dot, field = place.strip().partition(".")
        if not (sign and dot and table and field):
            raise InputError(
                f"--set must be TABLE.FIELD=VALUE, got {text!r}. For example --set dynamics.steps=5."
            )
        try:
            read = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            read = value.strip()
        tables.setdefault(table, {})[field] = read


def as_path(tables: dict[str, dict[str, Any]], table: str, field: str) -> None:
    """Make a path in a table independent of the folder it was typed in."""
    if field in tables.get(table, {}):
        tables[table][field] = str(Path(tables[table][field]).resolve())
