"""The code in the documentation runs."""

import contextlib
import io
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
BLOCKS = [
    pytest.param(code, id=f"{page.name}-{index}")
    for page in sorted(DOCS.glob("*.md"))
    for index, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.S))
]


@pytest.mark.slow
@pytest.mark.parametrize("code", BLOCKS)
def test_code_runs(code):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(code, "docs", "exec"), {"__name__": "docs"})
    assert out.getvalue()
