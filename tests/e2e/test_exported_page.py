"""The exported page in a real browser, from a file and with no network: it computes everything itself."""

import os
import shutil
import time
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from engram.explorer import export
from engram.explorer._presets import PRESETS

playwright = pytest.importorskip("playwright.sync_api")

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
if BROWSER is None and not os.environ.get("ENGRAM_NEED_BROWSER"):
    pytest.skip("no Chromium here: the page's own tests need one", allow_module_level=True)


class Visit:
    """The page, with what went wrong on it and what it asked for."""

    def __init__(self, browser, address):
        self.address, self.faults, self.asked = address, [], []
        self.page = browser.new_page(viewport={"width": 1400, "height": 900})
        self.page.on(
            "console",
            lambda said: (
                self.faults.append(said.text) if said.type in ("error", "warning") else None
            ),
        )
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))  # fmt: skip

    def open(self, hash):
        self.page.goto(f"{self.address}?{time.monotonic_ns()}{hash}")
        self.settle("engram.redraws > 0")
        if not hash:  # a first look is in motion
            self.page.mouse.click(5, 5)
        self.settle()

    def settle(self, condition="engram.redraws > 0 && engram.isSettled()"):
        until(self.page, condition, self.faults)


def until(frame, condition, faults):
    end = time.monotonic() + 300
    while not frame.evaluate(f"Boolean(globalThis.engram && ({condition}))"):
        assert time.monotonic() < end, faults
        time.sleep(0.01)


@pytest.fixture(scope="module")
def visit(tmp_path_factory):
    assert BROWSER is not None, "ENGRAM_NEED_BROWSER is set, and there is no Chromium: install it"
    path = export(tmp_path_factory.mktemp("page") / "page.html", address="#preset=fig4")
    nowhere = "--host-resolver-rules=MAP * ~NOTFOUND"
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu", nowhere]
        )
        made = Visit(browser, path.as_uri())
        yield made
        browser.close()
    assert made.faults == []
    assert {url.split(":")[0] for url in made.asked} <= {"file", "blob", "data"}


def test_every_preset_draws(visit):
    page = visit.page
    for preset in PRESETS:
        visit.open(f"#preset={preset['id']}")
        assert page.text_content("#commentary") == preset["text"]
        assert page.is_hidden("#message")
        assert page.evaluate("engram.data.runs.length") == len(preset["state"]["runs"])
        name = "plane" if page.evaluate("engram.data.plane.has_plane") else "fan-0"
        for canvas in (name, "loss", "sharpness"):  # more than one colour
            assert page.evaluate(
                f"""(() => {{ const c = document.getElementById('{canvas}');
                const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
                return new Set(new Uint32Array(d.buffer)).size; }})()"""
            ) > 3, canvas  # fmt: skip
    assert any(url.startswith("blob:") for url in visit.asked)  # the engine is in a worker


def test_the_page_begins_at_its_address_and_its_links_hold_the_state(visit):
    page = visit.page
    visit.open("")
    assert page.evaluate("engram.state.preset") == "fig4"
    page.fill("#rate-0", "0.25")
    page.press("#rate-0", "Tab")
    visit.settle()
    state, link = page.evaluate("engram.state"), page.url
    visit.open("#" + link.split("#")[1])
    assert page.evaluate("engram.state") == state
    assert state["runs"][0]["learning_rate"] == 0.25


def test_a_first_visit_is_guided_in_three_steps_once(visit):
    page = visit.page
    page.goto(visit.address)
    visit.settle("engram.redraws > 0")
    assert page.is_visible("#guide")
    for _ in range(3):
        page.click("#guide-next")
    assert page.is_hidden("#guide")
    page.goto(f"{visit.address}?again")
    visit.settle("engram.redraws > 0")
    assert page.is_hidden("#guide")


def test_settings_are_kept_beside_others_and_in_the_link(visit):
    page = visit.page
    visit.open("#preset=fig2")
    page.click("#keep")
    assert page.is_visible("#kept-plane")
    page.fill("#rate-0", "2")
    page.press("#rate-0", "Tab")
    visit.settle()
    assert "gd, η = 10; gd, η = 1" in page.text_content("#kept-words")
    visit.open("#" + page.url.split("#")[1])
    visit.settle("!document.getElementById('kept').hidden")
    assert "gd, η = 10; gd, η = 1" in page.text_content("#kept-words")
    assert page.input_value("#rate-0") == "2"
    page.click("#kept-back")
    visit.settle()
    assert page.input_value("#rate-0") == "10"
    page.click("#kept-drop")
    assert page.is_hidden("#kept")
    assert "kept" not in page.url


def test_a_token_and_a_run_are_followed_by_clicks(visit):
    page = visit.page
    visit.open("#preset=fig2")
    assert "4 loss spikes" in page.text_content("#happened")
    page.click("#legend button >> nth=1")
    visit.settle()
    assert "Margins of run 2" in page.text_content("#margins-title")
    page.click("#legend button >> nth=0")
    page.select_option("#follow", "1")
    visit.settle()
    assert "follow=1" in page.url
    box = page.locator("#margins").bounding_box()
    # Token 0 is the upper line at the fifth step.
    page.mouse.click(box["x"] + 52 + (box["width"] - 72) * 5 / 34, box["y"] + 8 + 6)
    visit.settle()
    assert page.evaluate("engram.state.show.follow") == 0
    page.mouse.click(box["x"] + 52 + (box["width"] - 72) * 5 / 34, box["y"] + 8 + 6)
    visit.settle()
    assert page.evaluate("engram.state.show.follow") is None


def test_who_pushed_whom_is_a_map_with_a_cursor_of_its_own(visit):
    page, words = visit.page, "document.getElementById('pushes-words').textContent"
    visit.open("#preset=fig2&t=0")
    page.click("#pushes-box summary")
    visit.settle(f"{words}.includes('strongest')")
    assert "token 0 raises its own margin by 7.5." in page.text_content("#pushes-words")
    assert "pushes=shown" in page.url
    page.focus("#pushes")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert "From step 0 to 1, token 0 lowers the margin of token 1 by 7.125" in page.evaluate(words)
    assert page.evaluate("engram.cursor") == 0
    page.keyboard.press("Enter")
    visit.settle()
    assert page.evaluate("engram.state.show.follow") == 1
    page.fill("#cursor", "12")
    visit.settle(f"{words}.includes('step 12 to 13')")
    page.click("#events .why")
    visit.settle("engram.isExplained() && engram.isSettled()")
    assert "What lowered its margin: token 0 by 7.12" in page.text_content("#events")


def test_the_page_writes_python_and_says_what_is_beyond_it(visit):
    page = visit.page
    visit.open("#preset=fig2")
    page.click("#show-python")
    assert "'learning_rate': 10.0" in page.input_value("#python-text")
    page.click("#close-python")
    assert page.evaluate(
        "[...document.querySelectorAll('#method-0 option')].some((o) => o.value === 'muon')"
    )
    assert not page.evaluate(
        "[...document.querySelectorAll('#method-0 option')].some((o) => o.value === 'sgf')"
    )
    visit.page.goto(f"{visit.address}?beyond#problem=own&name=01234567")
    visit.settle("!document.getElementById('message').hidden")
    assert "engram explore" in page.text_content("#message")


STORY = """<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="{static}/story.css">
<div class="story"><div class="story-frame">
<iframe src="{page}?told#preset=fig4" data-page="{page}?told"></iframe></div><div>
<section class="story-step" tabindex="0" data-state="preset=fig4"><h2>a</h2></section>
<section class="story-step" tabindex="0" data-state="preset=benign-spike&run=gd,30&t=4"><h2>b</h2></section>
</div></div><script src="{static}/story.js"></script>"""


def test_the_page_beside_a_story_shows_the_step_that_is_read(visit, tmp_path):
    static = (Path(__file__).parents[2] / "docs" / "_static").as_uri()
    (tmp_path / "story.html").write_text(STORY.format(static=static, page=visit.address), "utf-8")
    visit.page.goto((tmp_path / "story.html").as_uri())
    frame = visit.page.frames[-1]
    until(frame, "engram.redraws > 0 && engram.state.preset === 'fig4'", visit.faults)
    visit.page.evaluate("scrollTo({ top: document.body.scrollHeight, behavior: 'instant' })")
    until(frame, "engram.data.state.preset === 'benign-spike' && engram.isSettled()", visit.faults)
    assert frame.evaluate("[engram.cursor, engram.data.runs.length]") == [4, 1]
    assert frame.is_hidden("#controls")
    frame.click("#open-controls")
    assert frame.is_visible("#rate-0")
    visit.page.focus(".story-step >> nth=0")
    until(frame, "engram.data.state.preset === 'fig4'", visit.faults)


NOTEBOOK = """
import engram
engram.explore(engram.on_sphere(key=3, num_tokens=12, num_classes=2, dim=2), height=700)"""


def test_a_notebooks_page_computes_by_itself_when_its_server_is_gone(visit, tmp_path):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(NOTEBOOK)])
    NotebookClient(notebook, timeout=300).execute()  # its session, and so its server, ends here
    (output,) = notebook.cells[0].outputs
    (tmp_path / "notebook.html").write_text(output.data["text/html"], encoding="utf-8")
    visit.page.goto((tmp_path / "notebook.html").as_uri())
    frame = visit.page.frames[-1]
    assert frame.url == "about:srcdoc"
    until(frame, "engram.redraws > 0", visit.faults)
    assert frame.evaluate("engram.data.plane.sizes") == [12, 2, 2]
    frame.fill("#rate-0", "3")  # nothing to write an address into
    frame.press("#rate-0", "Tab")
    until(frame, "engram.data.state.runs[0].learning_rate === 3", visit.faults)
    # The browser's own line on the server that is gone.
    assert [fault for fault in visit.faults if "ERR_" not in fault] == []
    visit.faults.clear()
    assert any("/here/" in url for url in visit.asked)
    visit.asked = [url for url in visit.asked if "/here/" not in url]
