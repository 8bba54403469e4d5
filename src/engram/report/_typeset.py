"""Formulas within sentences as HTML: indices lowered, powers raised, code in a type of its own."""

import re

from markupsafe import Markup, escape

_GROUP = r"\{((?:[^{}]|\{[^{}]*\})*)\}"  # with one group inside at most
_SCRIPT = re.compile(rf"([_^])(?:{_GROUP}|\(([^()]*)\)|([−-]?\d+|[^\W\d_]+|[*⊥]))")
_LABEL = re.compile(r"\b[a-z]+:[\w-]+")  # of the paper, as in fig:margins_N5


def typeset(text: str) -> Markup:
    """A sentence as HTML: `e^{m_t}`, `W_O^2` and `x^-1` with indices and powers, `code` as code."""
    parts = re.split(r"`([^`]*)`", text)
    return Markup().join(
        Markup("<code>{}</code>").format(part) if index % 2 else _formulas(part)
        for index, part in enumerate(parts)
    )


def _formulas(text: str) -> Markup:
    labels = [match.span() for match in _LABEL.finditer(text)]
    pieces, done = [], 0
    for match in _SCRIPT.finditer(text):
        sign, group, round_group, bare = match.groups()
        begin = match.start()
        if any(low <= begin < high for low, high in labels) or _is_name(text[:begin], bare):
            continue
        if round_group is not None and sign == "_":
            continue
        inner = next(part for part in (group, round_group, bare) if part is not None)
        tags = "<sub>{}</sub>" if sign == "_" else "<sup>{}</sup>"
        pieces += [escape(text[done:begin]), Markup(tags).format(_formulas(inner))]
        done = match.end()
    return Markup().join([*pieces, escape(text[done:])])


def _is_name(before: str, after: str | None) -> bool:
    """Whether an underscore stands within a name such as `num_tokens`, and not before an index."""
    return bool(after and len(after) > 1 and after.isalpha() and re.search(r"[A-Za-z]{2}$", before))
