"""The README's code runs and prints what the README says."""

import contextlib
import io
import re
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_code_prints_what_is_shown():
    code, shown = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", README, re.S).groups()
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "README", "exec"), {})
    assert out.getvalue() == shown
