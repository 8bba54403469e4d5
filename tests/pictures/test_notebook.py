"""In a notebook every kind of result is shown as a picture."""

import base64

import nbformat
from nbclient import NotebookClient

CELLS = {
    "run": """
import engram
pair = engram.two_tokens(0.95, 0.75)
fast, slow = engram.GradientDescent(10.0, 34), engram.GradientDescent(1.0, 34)
engram.plot(engram.simulate(pair, fast, record=("loss", "error", "margins", "weights")))""",
    "comparison": """
engram.plot(engram.compare(pair, {"fast": fast, "slow": slow}, num=20))""",
    "sweep": """
spec = {"problem": {"family": "two", "p1": 0.75}, "dynamics": {"kind": "gd", "steps": 128},
        "sweep": {"observables": ["first_perfect"]}}
engram.plot(engram.sweep(spec, {"correlation": [0.1, 0.5, 0.9], "learning_rate": [0.5, 2.0, 20.0]}))""",
    "training": """
config = engram.transformer.Config(dim=8, sequences=8, length=20)
engram.plot(engram.transformer.train(config, [engram.GradientDescent(r, 3) for r in (1.0, 5.0)]))""",
}

EXPLAINED = "engram.diagnosis.explain(engram.simulate(pair, fast))"


def test_a_notebook_shows_a_run_a_comparison_a_sweep_a_training_and_an_explanation(tmp_path):
    sources = [*CELLS.values(), EXPLAINED]
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": tmp_path}}).execute()
    *drawn, explained = notebook.cells
    for name, cell in zip(CELLS, drawn, strict=True):
        (output,) = cell.outputs  # nothing on stderr, and one picture
        assert output.output_type == "execute_result", name
        assert "Axes" in output.data["text/plain"]
        png = base64.b64decode(output.data["image/png"])
        (tmp_path / f"{name}.png").write_bytes(png)
        width, height = (int.from_bytes(png[at : at + 4]) for at in (16, 20))
        assert 300 < height < width < 2500, name
    (output,) = explained.outputs
    page = output.data["text/html"]
    assert "What lowered its margin: token 0 by" in page
    assert base64.b64decode(page.split("base64,")[1].split('"')[0]).startswith(b"\x89PNG")
