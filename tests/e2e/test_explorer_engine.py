"""The explorer's own engine in a real browser: the page needs no server for what it can compute."""

import os
import shutil
import time

import numpy as np
import pytest

import engram
from engram.explorer import Explorer
from engram.explorer._presets import PRESETS

playwright = pytest.importorskip("playwright.sync_api")

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
if BROWSER is None and not os.environ.get("ENGRAM_NEED_BROWSER"):
    pytest.skip("no Chromium here: the page's own tests need one", allow_module_level=True)

STATUS = "document.getElementById('status').textContent"
SENT = "engram.sent.filter((path) => path.includes('/api/compute')).length"


@pytest.fixture(scope="module")
def page():
    assert BROWSER is not None, "ENGRAM_NEED_BROWSER is set, and there is no Chromium: install it"
    explorer, faults = Explorer(warm=False).start(), []
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"]
        )
        made = browser.new_page(viewport={"width": 1400, "height": 900})
        made.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
        made.on("pageerror", lambda error: faults.append(str(error)))
        made.goto(explorer.url)
        until(made, "globalThis.engram && engram.redraws > 0 && engram.isSettled()")
        made.evaluate(
            """void (engram.sent = [], globalThis.plain = fetch,
            globalThis.fetch = (...a) => { engram.sent.push(a[0]); return plain(...a); })"""
        )
        made.explorer = explorer
        yield made
        browser.close()
        explorer.stop()
    assert [each for each in faults if "ERR_CONNECTION_REFUSED" not in each] == []


def until(page, condition, seconds=300):
    end = time.monotonic() + seconds
    while not page.evaluate(f"Boolean({condition})"):
        assert time.monotonic() < end, f"{condition} did not come"
        time.sleep(0.02)


def settle(page):
    until(page, "engram.isSettled()")


def test_every_preset_is_computed_in_the_page(page):
    for preset in PRESETS:
        page.select_option("#preset", preset["id"])
        settle(page)
        assert page.evaluate("engram.data.runs.length") == len(preset["state"]["runs"])
        assert page.evaluate(STATUS) == "computed in this page"
    assert page.evaluate(SENT) == 0


def test_a_drag_shows_the_librarys_numbers_and_asks_no_server(page):
    page.select_option("#preset", "fig2")
    settle(page)
    drawn = page.evaluate("engram.redraws")
    page.evaluate(
        """(async () => { const s = document.getElementById('correlation-slider');
        for (let k = 0; k <= 30; k++) { s.value = -0.8 + 0.02 * k; s.dispatchEvent(new Event('input'));
          await new Promise(requestAnimationFrame); } })()"""
    )
    settle(page)
    assert page.evaluate("engram.redraws") > drawn
    assert page.evaluate(SENT) == 0
    run = engram.simulate(engram.two_tokens(-0.2, 0.75), engram.GradientDescent(10.0, 34))
    shown = page.evaluate("Array.from(engram.data.runs[0].loss)")
    np.testing.assert_allclose(shown, run.loss.values, rtol=1e-12)


def test_what_is_refused_reads_as_the_servers_refusal(page):
    page.fill("#rate-0", "-3")
    page.wait_for_selector("#message:not([hidden])")
    assert "runs.0.learning_rate: must be at least 0, got -3" in page.text_content("#message")
    page.fill("#rate-0", "4")
    page.press("#rate-0", "Tab")
    settle(page)
    assert page.is_hidden("#message")
    assert page.evaluate(SENT) == 0


def test_what_is_beyond_the_engine_goes_to_the_server(page):
    page.select_option("#method-0", "sgf")
    settle(page)
    assert page.evaluate("engram.data.state.runs[0].kind") == "sgf"
    assert page.evaluate(SENT) > 0
    assert page.evaluate(STATUS) == "ready"


def test_the_page_goes_on_without_its_server(page):
    page.select_option("#preset", "fig2")
    settle(page)
    page.click("#events button:has-text('caused')")
    until(page, "engram.isExplained()")
    settle(page)
    assert "What lowered its margin: token 0 by 7.12" in page.text_content("#events")
    page.explorer.stop()
    until(page, f"{STATUS}.includes('does not answer')")
    page.fill("#rate-0", "5")
    page.press("#rate-0", "Tab")
    until(page, "engram.data.state.runs[0].learning_rate === 5")
    page.click("#show-python")
    page.wait_for_selector("#python-dialog[open]")
    assert "'learning_rate': 5.0" in page.input_value("#python-text")
    page.keyboard.press("Escape")
