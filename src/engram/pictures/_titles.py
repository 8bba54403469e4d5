"""What pictures call things: titles, axes and tokens, from the names that a dataset holds."""

import json
import re
import textwrap
from pathlib import Path
from typing import Any

import xarray as xr

from engram._checks import InputError
from engram.registry import fields_of, find

_SYMBOLS = {
    "correlation": r"correlation $\alpha$", "learning_rate": r"learning rate $\eta$", "p1": "$p_1$",
    "log_odds": r"imbalance $\log(p_1/p_2)$", "num_tokens": "tokens $N$", "dim": "dimension $d$",
    "num_classes": "classes $M$", "exponent": "Zipf exponent", "start_scale": "scale of the start",
    "step": "step $t$", "time": "time $t$", "loss": "loss $L(W_t)$", "error": "error $L_{01}(W_t)$",
    "margins": "margin $m_t(x)$",
}  # fmt: skip
_VALUES = {
    "first_perfect": "steps to perfect accuracy", "perfect_from": "steps to lasting perfect accuracy",
    "spike_height": "highest loss over the lowest before", "num_spikes": "number of spikes",
    "last_rise": "last step at which the loss rose", "max_loss": "highest loss", "final_loss": "last loss",
    "final_error": "last 0-1 loss", "final_margins": "last margin",
    "likeliest_margin": "margin of the likeliest token", "tail_loss": "loss of the last steps",
    "likeliest_forgotten": "likeliest token forgotten", "convergence": "how the run ends",
}  # fmt: skip
_LONGEST = 24  # characters of a name that are shown


def axis_label(name: str) -> str:
    """The label of an axis: in words, with the paper's symbol where there is one."""
    return _SYMBOLS.get(name) or escaped(name.replace("_", " "))


def value_words(array: xr.DataArray) -> str:
    """What a variable is, in a few words, without labels of the paper."""
    name = str(array.name)
    words = _VALUES.get(name) or array.attrs.get("long_name") or name.replace("_", " ")
    return re.sub(r" \((eq|thm|fig|sec):[^)]*\)", "", words.split(";")[0])


def value_label(array: xr.DataArray) -> str:
    """The same for an axis, in lines as long as a panel is high."""
    return textwrap.fill(value_words(array), 38)


def escaped(text: str) -> str:
    """A text in which nothing begins a formula."""
    return text.replace("$", r"\$")


def shown_name(name: str) -> str:
    """A name as a legend shows it: one line of bounded length, in which nothing begins a formula."""
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in name[: _LONGEST + 1])
    text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    return escaped(text)


def legend_name(name: str) -> str:
    """A name that is all of a legend's entry; matplotlib leaves out what begins with an underscore."""
    text = shown_name(name)
    return f" {text}" if text.startswith("_") else text


def dynamics_words(table: dict[str, Any]) -> str:
    """A dynamics in words: its name, and what differs from the defaults."""
    known = _fields(table)
    parts = [_kind_words("dynamics", table.get("kind", "dynamics"))]
    for name, value in table.items():
        if name == "kind" or (name in known and known[name].default == value):
            continue
        if isinstance(value, dict) and "kind" in value:
            parts.append(str(value["kind"]))
            value = value.get("learning_rate")
            name = "learning_rate"
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            parts.append(setting_words(name, value))
    return ", ".join(parts)


def problem_words(table: dict[str, Any]) -> str:
    """A problem of a spec in words: its family, or the file's name, and the numbers that are fixed."""
    if table.get("path"):
        return Path(str(table["path"])).name
    numbers = {name: value for name, value in table.items() if isinstance(value, int | float)}
    fixed = [setting_words(name, value) for name, value in numbers.items() if name != "seed"]
    return ", ".join([_kind_words("problem", table.get("family", "problem")), *fixed])


def spec_of(data: xr.Dataset) -> dict[str, Any]:
    """The spec that a dataset carries; empty if it has none that can be read."""
    try:
        spec = json.loads(data.attrs.get("spec", "{}"))
    except (TypeError, ValueError):
        return {}
    return spec if isinstance(spec, dict) else {}


def capital(text: str) -> str:
    """With a capital at its beginning."""
    return text[:1].upper() + text[1:]


def setting_words(name: str, value: Any) -> str:
    """A name and its value, with the paper's symbol where there is one."""
    if name == "steps":
        return f"{value} step{'s' if value != 1 else ''}"
    if name in ("optimizer", "sampling"):
        return escaped(str(value))
    if symbol := re.search(r"\$(.*)\$", _SYMBOLS.get(name, "")):
        # Without spaces, at which a title breaks into lines.
        return f"${symbol[1]}={value if isinstance(value, str) else f'{value:.4g}'}$"
    return f"{escaped(name.replace('_', ' '))} = {escaped(str(value))}"


def _kind_words(kind: str, name: str) -> str:
    """The name of what an entry makes, in words: "gradient descent" for gd, "two tokens" for two."""
    try:
        target = str(find(kind, name).target)
    except InputError:
        target = name
    split = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", target.rpartition(":")[2])
    return escaped(split.replace("_", " ").lower().replace("on sphere", "on the sphere"))


def _fields(table: dict[str, Any]) -> dict[str, Any]:
    try:
        return fields_of("dynamics", table)
    except (InputError, KeyError):
        return {}
