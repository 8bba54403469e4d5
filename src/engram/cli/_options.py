"""Options made from the registry: one for each field that a table of a spec may have."""

import functools
import inspect
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args, get_origin

import typer
from typer.core import TyperCommand

from engram._cache import use_cache
from engram._errors import InputError
from engram.registry import (
    CHOOSERS,
    Field,
    all_fields,
    entries,
    load_plugin,
    names_of,
    option_of,
)

Tables = dict[str, dict[str, Any]]
_SHORT = {"--num-tokens": "-N", "--num-classes": "-M", "--dim": "-d", "--learning-rate": "-r", "--steps": "-t",
          "--sequences": "-S", "--length": "-T"}  # fmt: skip


def _load_plugins(sources: list[str] | None) -> None:
    """Load what a command was given as --plugin, before anything else is read."""
    for source in sources or ():
        load_plugin(source)


Plugin = Annotated[list[str] | None, typer.Option(callback=_load_plugins, help="A module or FILE.py that registers your own names; repeat for more.", rich_help_panel="Your own")]  # fmt: skip
Set = Annotated[list[str] | None, typer.Option("--set", metavar="TABLE.FIELD=VALUE", help="Set any field of a table, in TOML syntax; repeat for more.", rich_help_panel="Your own")]  # fmt: skip


class _Option(NamedTuple):
    """An option: the table and the field that it fills, and how its text is read."""

    table: str
    field: str
    about: Field

    @property
    def name(self) -> str:
        return option_of(self.table, self.field)

    @property
    def key(self) -> str:
        """As the argument of a command."""
        return self.name[2:].replace("-", "_")


def with_options(*kinds: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for each field of these tables; it gets what was typed as `tables`.

    It also gets --plugin, and --set for the fields of plugins.
    """
    options: dict[str, _Option] = {}
    for option in [option for kind in kinds for option in _options(kind)]:
        options.pop(option.key, None)  # one --seed is that of the run, and of all in it
        options[option.key] = option

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(plugin: None, set_: list[str] | None, **values: Any) -> None:
            tables: Tables = {}
            for key, option in options.items():
                if (value := values.pop(key)) not in (None, []):
                    tables.setdefault(option.table, {})[option.field] = _read(option, value)
            _set(tables, set_ or [])
            command(tables, **values)

        _, *own = inspect.signature(command).parameters.values()
        own += [_parameter(key, _annotation(option)) for key, option in options.items()]
        own += [_parameter("plugin", Plugin), _parameter("set_", Set)]
        run.__signature__ = inspect.Signature(own)  # pyright: ignore[reportAttributeAccessIssue]
        run.__annotations__ = {each.name: each.annotation for each in own}
        return run

    return decorate


class Command(TyperCommand):
    """A command that knows which option was meant by its beginning or its initials: --lr, --learning."""

    def invoke(self, ctx: Any) -> Any:
        use_cache()
        return super().invoke(ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            typed = getattr(error, "option_name", "").lstrip("-")
            if typed and hasattr(error, "possibilities"):  # there is no such option
                names = [name[2:] for each in self.params for name in each.opts if name[:2] == "--"]
                initials = {name: "".join(word[:1] for word in name.split("-")) for name in names}
                meant = [n for n in names if n.startswith(typed) or initials[n] == typed]
                error.possibilities = [f"--{n}" for n in meant] or error.possibilities  # pyright: ignore[reportAttributeAccessIssue]
            raise


def merged(spec: Path | None, typed: Tables, usual: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The tables of a spec, or the usual ones, with what was typed over them; and where they come from."""
    from engram.specs import read_toml

    tables = usual if spec is None else read_toml(spec)
    for name, values in typed.items():
        table = tables.setdefault(name, {})
        if isinstance(table, dict):  # else it is refused with whatever else is wrong with the spec
            table |= values
    return tables, "the options" if spec is None else str(spec)


def _options(kind: str) -> list[_Option]:
    """The options of a table."""
    choices = {
        "problem": "Family of the problem",
        "system": "What moves",
        "dynamics": "How it moves",
    }
    words = (
        {CHOOSERS.get(kind, "kind"): f"{choices[kind]}: {', '.join(names_of(kind))}."}
        if kind in choices
        else {}
    )
    if kind == "dynamics":
        words["sampling"] = f"What a step sees: {', '.join(entries('sampling'))}."
        words["optimizer"] = f"With --dynamics descent: {', '.join(entries('optimizer'))}."
    fields = {field: Field(help, type=str) for field, help in words.items()} | all_fields(kind)
    return [_Option(kind, field, about) for field, about in fields.items() if _is_short(about)]


def _is_short(field: Field) -> bool:
    """Whether its value can be typed: not a list of lists, nor a long one."""
    inner = [get_args(form)[0] for form in field.forms if get_origin(form) is list]
    return not any(form is Any or get_origin(form) is list for form in inner)


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)  # fmt: skip


def _annotation(option: _Option) -> Any:
    """What typer wants to know: text where there are several forms, or several numbers."""
    forms, help, default = option.about.forms, option.about.help, option.about.default
    # A list of names may be given one by one.
    is_names = any(get_origin(form) is list and str in get_args(get_args(form)[0]) for form in forms)  # fmt: skip
    kind: Any = list[str] if is_names else str
    if len(forms) == 1 and forms[0] in (bool, int, float):
        kind = forms[0]
    flag = f"{option.name}/--no-{option.name[2:]}" if kind is bool else option.name
    if not (default in (None, []) or option.about.is_required or kind is bool):
        shown = ",".join(map(str, default)) if isinstance(default, list) else default
        help = f"{help} Default {shown}."
    flags = [flag, *filter(None, [_SHORT.get(option.name)])]
    return Annotated[
        kind | None, typer.Option(*flags, help=help, rich_help_panel=option.table.capitalize())
    ]


def _read(option: _Option, value: Any) -> Any:
    """What was typed, in the form that its field has: numbers with commas are a list."""
    field = option.about
    lists = [get_args(form)[0] for form in field.forms if get_origin(form) is list]
    has_table = any(get_origin(form) is dict for form in field.forms)
    if not isinstance(value, str) or value in field.choices or not (lists or has_table):
        return value
    try:
        if has_table and (not lists or "=" in value):
            key, _, bound = value.partition("=")
            return {key: float(bound)}
        read = lists[0] if lists[0] in (int, float) else str.strip
        items = [read(part) for part in value.split(",")]
    except ValueError:
        options = f"one of {', '.join(map(str, field.choices))}, or " if field.choices else ""
        form = "a number, or numbers with commas between" if lists else "NAME=NUMBER"
        raise InputError(f"{option.name} must be {options}{form}, got {value!r}.") from None
    return items[0] if len(items) == 1 and float in field.forms else items


def _set(tables: Tables, given: list[str]) -> None:
    """Take in `TABLE.FIELD=VALUE`; a value that is not TOML is a string."""
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
