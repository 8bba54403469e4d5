"""Stories: text that is scrolled beside the live page, which shows the state of the paragraph that is read.

A story is a directive that contains steps; each step has a title, and a state: the address of the page
after its `#`. A number is a role, as in {value}`0.9 <correlation>`: the number as printed, and the expression that a test
evaluates with the library in the step's state.
"""

import html
from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective, SphinxRole

PAGE = "explorer-live.html?told"
_FRAME = (
    '<div class="story-frame"><iframe src="{page}#{state}" data-page="{page}" '
    'title="The explorer, showing the step that is read" allow="clipboard-write"></iframe></div>'
)
_STEP = '<section class="story-step" tabindex="0" data-state="{state}"><h2>{title}</h2>'


class Story(SphinxDirective):
    """The frame, and the steps beside it."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        steps = self.parse_content_to_nodes()
        states = [
            node["state"] for each in steps for node in each.findall(nodes.raw) if "state" in node
        ]
        frame = _FRAME.format(page=PAGE, state=html.escape(states[0]))
        return [_raw(f'<div class="story">{frame}<div>'), *steps, _raw("</div></div>")]


class Step(SphinxDirective):
    """A paragraph or two, and the state that they are about."""

    has_content = True
    required_arguments = 1
    final_argument_whitespace = True
    option_spec = {"state": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        state, title = self.options["state"], html.escape(self.arguments[0])
        begin = _raw(_STEP.format(state=html.escape(state), title=title))
        begin["state"] = state
        return [begin, *self.parse_content_to_nodes(), _raw("</section>")]


class Value(SphinxRole):
    """A number; the expression behind it is for the test."""

    def run(self) -> tuple[list[nodes.Node], list[Any]]:
        shown, _, expression = self.text.partition(" <")
        return [nodes.inline(expression, shown.replace("-", "\N{MINUS SIGN}"))], []


def _raw(text: str) -> nodes.raw:
    return nodes.raw("", text, format="html")


def setup(app: Any) -> dict[str, Any]:
    app.add_directive("story", Story)
    app.add_directive("step", Step)
    app.add_role("value", Value())
    app.add_css_file("story.css")
    app.add_js_file("story.js", loading_method="defer")
    return {"parallel_read_safe": True}
