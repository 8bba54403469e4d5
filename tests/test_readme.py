"""The README's code runs and prints what the README says."""

import contextlib
import io
import re
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_code_prints_what_is_shown():
    blocks = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", README, re.S)
    assert len(blocks) == README.count("```python") > 0  # each shows what it prints
    for code, shown in blocks:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(code, "README", "exec"), {})
        assert out.getvalue() == shown


def test_readme_has_no_placeholders():
    assert not re.findall(r"\b(?:TODO|TBD|XXX|[A-Z]{4,}_[A-Z0-9]+|SPEEDS)\b", README)


def test_links_lead_somewhere():
    root = Path(__file__).parents[1]
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (root / target).exists(), target
