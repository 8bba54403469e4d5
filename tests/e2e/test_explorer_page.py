"""The explorer in a real browser: every control, the keyboard, links, exports, presets, faults."""

import http.server
import json
import os
import re
import shutil
import threading
import time

import numpy as np
import pytest

import engram
from engram import planes
from engram.explorer import Explorer, payloads
from engram.explorer._presets import PRESETS

playwright = pytest.importorskip("playwright.sync_api")

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
if BROWSER is None and not os.environ.get("ENGRAM_NEED_BROWSER"):
    pytest.skip("no Chromium here: the page's own tests need one", allow_module_level=True)


@pytest.fixture(scope="module")
def browser():
    assert BROWSER is not None, "ENGRAM_NEED_BROWSER is set, and there is no Chromium: install it"
    with playwright.sync_playwright() as started:
        # No name but this machine's is known to it: a request outside would fail, and be noted.
        only_here = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
        made = started.chromium.launch(
            executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu", only_here]
        )
        yield made
        made.close()


class Visit:
    """A page, with everything that went wrong on it."""

    def __init__(self, browser, explorer, **options):
        self.context = browser.new_context(**{"viewport": {"width": 1400, "height": 900}} | options)
        self.page = self.context.new_page()
        self.faults, self.outside = [], []
        self.page.on("console", lambda said: self._heard(said))
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("request", lambda request: self._sent(request.url, explorer.url))
        self.url = explorer.url

    def _heard(self, said):
        if said.type == "error":
            self.faults.append(said.text)

    def _sent(self, url, own):
        if not url.startswith((own, "blob:", "data:")):
            self.outside.append(url)

    def open(self, hash=""):
        # A new query each time: another hash alone would not load the page again. The server computes, to the
        # bit what the library does; the page's own engine has tests of its own.
        self.page.goto(f"{self.url}?by=server&at={time.monotonic_ns()}{hash}")
        self.until("engram.redraws > 0")
        self.settle()
        return self

    def until(self, condition, seconds=300):  # long, for a busy machine that compiles
        end = time.monotonic() + seconds
        while not self.page.evaluate(f"Boolean(globalThis.engram && ({condition}))"):
            assert time.monotonic() < end, f"{condition} did not come; {self.faults}"
            time.sleep(0.02)

    def settle(self):
        """Until what is drawn is what the controls say, and the words are those of the drawing."""
        self.until("engram.isSettled()")

    def get(self, expression):
        return self.page.evaluate(expression)

    def array(self, run, name):
        values, shape = self.get(
            f"[Array.from(engram.data.runs[{run}].{name}), engram.data.runs[{run}].{name}.shape]"
        )
        return np.array(values, float).reshape(shape)

    def fill(self, selector, value):
        self.page.fill(selector, str(value))
        self.page.press(selector, "Tab")
        self.settle()

    def choose(self, selector, value):
        self.page.select_option(selector, value)
        self.settle()


@pytest.fixture
def visit(browser, explorer):
    made = Visit(browser, explorer)
    yield made
    made.context.close()
    assert made.faults == []
    assert made.outside == []


def test_random_states_show_the_librarys_numbers(visit):
    rng = np.random.default_rng(0)
    for k in range(5):
        correlation, p1 = rng.uniform(-1, 1), rng.uniform(0, 1)
        rates, start = (10 ** rng.uniform(-2, 2, 2)).tolist(), rng.normal(0, 3, 2).tolist()
        steps = int(rng.integers(33, 64))
        visit.open(
            f"#problem=two&correlation={correlation!r}&p1={p1!r}&run=gd,{rates[0]!r}&run=gd,{rates[1]!r}"
            f"&steps={steps}&start={start[0]!r},{start[1]!r}"
        )
        problem = engram.two_tokens(correlation, p1)
        plane = planes.memory_plane(problem)
        for number, rate in enumerate(rates):
            run = engram.simulate(
                problem, engram.GradientDescent(rate, steps), start=plane.weights(*start),
                record=("loss", "error", "margins", "sharpness", "weights"),
            )  # fmt: skip
            for name in ("loss", "error", "margins"):  # the very same computation
                assert np.array_equal(visit.array(number, name), run[name].values), (k, name)
            path = plane.coordinates(problem, run.weights.values)[0]
            assert np.array_equal(visit.array(number, "path"), path)
            np.testing.assert_allclose(
                visit.array(number, "sharpness"), run.sharpness.values, rtol=1e-12
            )


def test_presets_are_drawn_as_the_server_computes_them(visit):
    planes = set()
    for preset in PRESETS[::3]:  # all of them are drawn where the page computes them itself
        visit.open(f"#preset={preset['id']}")
        assert visit.page.input_value("#preset") == preset["id"]
        assert visit.page.text_content("#commentary") == preset["text"]
        assert visit.page.is_hidden("#message")
        assert visit.page.is_hidden("#reset")
        assert visit.get("engram.data.runs.length") == len(preset["state"]["runs"])
        has_plane = visit.get("engram.data.plane.has_plane")
        planes.add(has_plane)
        assert visit.page.is_visible("#plane") == has_plane
        assert visit.page.is_visible("#margins") == has_plane
        assert visit.page.is_visible("#fan-0") != has_plane
        shown = ["loss", "error", "sharpness", *(["plane", "margins"] if has_plane else ["fan-0"])]
        for name in shown:  # something was painted: more than one colour
            assert visit.get(
                f"""(() => {{ const c = document.getElementById('{name}');
                const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
                return new Set(new Uint32Array(d.buffer)).size; }})()"""
            ) > 3, name  # fmt: skip
    assert planes == {True, False}


def test_sliders_and_numbers_change_what_is_drawn(visit):
    visit.open("#preset=fig2")
    before = visit.array(0, "loss")
    for slider, key in (
        ("correlation", "ArrowLeft"),
        ("p1", "ArrowRight"),
        ("rate-0", "ArrowRight"),
    ):
        visit.page.focus(f"#{slider}-slider")
        value = visit.page.input_value(f"#{slider}")
        visit.page.keyboard.press(key)
        visit.settle()
        assert visit.page.input_value(f"#{slider}") != value
        assert not np.array_equal(visit.array(0, "loss"), before)
        before = visit.array(0, "loss")
    visit.fill("#rate-0", 2.5)
    visit.fill("#steps", 50)
    visit.fill("#start-a", 1.25)
    assert visit.array(0, "loss").shape == (51,)
    assert visit.array(0, "path")[0, 0] == pytest.approx(1.25)
    assert visit.get("engram.data.state.runs[0].learning_rate") == 2.5
    assert visit.page.is_visible("#reset")
    visit.page.click("#reset")
    visit.settle()
    assert visit.get("engram.state.runs[0].learning_rate") == 10
    assert visit.page.is_hidden("#reset")


def test_kinds_of_problems_and_dynamics(visit):
    visit.open("#preset=fig2")
    visit.choose("#kind", "sphere")
    visit.fill("#tokens", 3)
    assert visit.get("engram.data.plane.sizes") == [3, 2, 2]
    visit.fill("#draw", 4)
    drawn = engram.on_sphere(4, 3, 2, 2, exponent=1.0)
    assert visit.get("Array.from(engram.data.plane.probs)") == pytest.approx(drawn.probs.tolist())
    visit.fill("#dim", 3)
    assert visit.page.is_hidden("#plane-box")
    assert visit.page.is_visible("#fan-0")
    assert visit.page.is_visible("#start-scale")
    visit.fill("#start-scale", 0.5)
    visit.choose("#kind", "paper")
    visit.choose("#paper-name", "fig4-39")
    assert visit.page.is_visible("#plane")
    assert "max-margin" in visit.page.text_content("#plane-words")
    visit.choose("#kind", "two")
    visit.choose("#method-0", "sgd")
    visit.choose("#batch-0", "1")
    first = visit.array(0, "loss")
    visit.fill("#seed-0", 1)
    assert not np.array_equal(first, visit.array(0, "loss"))
    visit.choose("#method-0", "flow")
    assert visit.get("engram.data.runs[0].thresholds.length") == 0
    visit.choose("#overlay", "sharpness")
    assert visit.get("engram.data.plane.sharpness_grid.length") > 1000
    visit.choose("#overlay", "gradient")
    assert visit.get("engram.data.plane.field.length") > 100
    visit.choose("#loss-scale", "linear")
    visit.choose("#step-scale", "log")
    assert visit.get("[engram.data.state.show.loss, engram.data.state.show.axis]") == [
        "linear",
        "log",
    ]


def test_runs_come_and_go_and_change_their_rate_on_the_way(visit):
    visit.open("#preset=fig2")
    for _ in range(2):
        visit.page.click("#add-run")
        visit.settle()
    assert visit.get("engram.data.runs.length") == 4
    assert visit.page.is_disabled("#add-run")
    visit.page.click("[aria-label='Remove run 2']")
    visit.settle()
    assert visit.get("engram.data.runs.length") == 3
    # Another learning rate from step 12 on; what came before is not lost.
    before = visit.array(0, "loss")
    visit.page.click("#loss-title")
    visit.page.keyboard.press("Home")
    for _ in range(12):
        visit.page.keyboard.press("ArrowRight")
    visit.page.click("#change-rate")
    visit.settle()
    visit.fill("#then-0-0", 0.5)
    after = visit.array(0, "loss")
    assert np.array_equal(before[:13], after[:13])
    assert not np.array_equal(before[13:], after[13:])
    assert visit.get("engram.data.runs[0].thresholds") == [[0, 0.2], [12, 4]]
    visit.page.click("text=remove this change")
    visit.settle()
    assert np.array_equal(visit.array(0, "loss"), before)
    visit.page.check("#focus-1")
    visit.settle()
    assert "run 2" in visit.page.text_content("#margins-title")


def middle(visit, selector):
    visit.page.locator(selector).scroll_into_view_if_needed()
    box = visit.page.locator(selector).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_the_start_is_dragged_clicked_and_moved_by_keys(visit):
    visit.open("#preset=fig2")
    x, y = middle(visit, "#handle")
    visit.page.mouse.move(x, y)
    visit.page.mouse.down()
    for k in range(1, 11):
        visit.page.mouse.move(x + 6 * k, y - 4 * k)
    visit.page.mouse.up()
    visit.settle()
    a, b = visit.get("[engram.state.start.a, engram.state.start.b]")
    assert a > 0.5 < b
    assert visit.array(0, "path")[0] == pytest.approx([a, b])
    hx, hy = middle(visit, "#handle")
    assert abs(hx - x - 60) < 2
    assert abs(hy - y + 40) < 2
    box = visit.page.locator("#plane").bounding_box()
    visit.page.mouse.click(box["x"] + 300, box["y"] + 200)
    visit.settle()
    assert visit.get("engram.state.start.a") != a
    visit.page.focus("#handle")
    a = visit.get("engram.state.start.a")
    visit.page.keyboard.press("ArrowRight")
    visit.page.keyboard.press("Shift+ArrowUp")
    visit.settle()
    assert visit.get("engram.state.start.a") == pytest.approx(a + 0.135)
    assert "γ₁" in visit.page.get_attribute("#handle", "aria-label")
    visit.page.click("#start-zero")
    visit.settle()
    assert visit.get("[engram.state.start.a, engram.state.start.b]") == [0, 0]
    visit.page.click("#fit")
    visit.settle()
    visit.page.click("#zoom-in")
    visit.settle()
    assert visit.get("engram.data.state.view.half") < 13.5


def test_one_cursor_goes_through_everything(visit):
    visit.page.clock.install()
    visit.open("#preset=fig2")
    assert visit.page.text_content("#readout-step") == "34"
    x, y = middle(visit, "#sharpness")
    visit.page.mouse.move(x, y)
    visit.until("document.getElementById('readout-step').textContent !== '34'")
    step = int(visit.get("engram.cursor"))
    assert 10 < step < 24
    visit.page.mouse.move(5, 5)
    visit.page.keyboard.press("ArrowRight")
    visit.page.keyboard.press("Shift+ArrowLeft")
    visit.settle()
    assert visit.get("engram.cursor") == step - 9
    shown = visit.page.text_content("#readout tbody tr:first-child td:nth-of-type(1)").replace(
        "−", "-"
    )
    assert float(shown) == pytest.approx(visit.array(0, "loss")[step - 9], rel=1e-4)
    visit.page.keyboard.press("Home")
    visit.settle()
    assert visit.page.text_content("#readout-step") == "0"
    assert visit.page.input_value("#cursor") == "0"
    # Events name the tokens and lead to their steps.
    visit.page.click("#events .why")
    visit.until("engram.isExplained()")
    visit.settle()
    assert "What lowered its margin: token 0 by 7.12" in visit.page.text_content("#events")
    visit.page.click("#events button >> text=step 10")
    visit.settle()
    assert visit.get("engram.cursor") == 10
    assert "run 1: loss spike, 2.14 times" in visit.page.text_content("#here")
    visit.page.click("#play")
    assert visit.page.get_attribute("#play", "aria-pressed") == "true"
    visit.until("engram.cursor > 12")
    visit.page.click("#play")
    stopped = visit.get("engram.cursor")
    visit.page.clock.run_for(3000)
    assert visit.get("engram.cursor") == stopped < 34
    middle(visit, "#handle")
    box = visit.page.locator("#plane").bounding_box()
    start = visit.array(0, "path")[0]
    view = visit.get("engram.data.state.view")
    inner = box["width"] - 72
    at = box["x"] + 52 + inner * (start[0] - view["x"] + view["half"]) / (2 * view["half"])
    visit.page.mouse.move(at + 2, middle(visit, "#handle")[1] + 14)
    visit.settle()
    assert visit.get("engram.cursor") <= 2


def test_the_address_holds_the_state_and_back_goes_back(visit, explorer, browser):
    visit.open("#preset=fig2")
    visit.fill("#rate-0", 7.25)
    visit.fill("#correlation", 0.8125)
    x, y = middle(visit, "#handle")
    visit.page.mouse.move(x, y)
    visit.page.mouse.down()
    visit.page.mouse.move(x + 37, y + 11, steps=4)
    visit.page.mouse.up()
    visit.settle()
    visit.choose("#overlay", "gradient")
    state, link = visit.get("engram.state"), visit.page.url
    other = Visit(browser, explorer)
    try:
        other.open("#" + link.split("#")[1])
        assert other.get("engram.state") == state
        assert np.array_equal(other.array(0, "loss"), visit.array(0, "loss"))
        assert other.faults == []
    finally:
        other.context.close()
    visit.page.go_back()
    visit.until("engram.state.view.overlay === 'none'")
    visit.page.go_back()
    visit.until("engram.state.start.a === 0")
    visit.page.go_back()
    visit.until("engram.state.problem.correlation === 0.95")
    visit.settle()
    assert visit.page.input_value("#correlation") == "0.95"
    visit.page.go_forward()
    visit.until("engram.state.problem.correlation === 0.8125")


def test_a_run_from_a_file_is_drawn_explained_and_trained_again(visit, explorer):
    run = engram.simulate(engram.two_tokens(0.95, 0.75), engram.GradientDescent(10.0, 34))
    visit.open("#" + explorer.show(run).split("#")[1])
    visit.until("engram.isExplained()")
    visit.settle()
    assert np.array_equal(visit.array(0, "margins"), run.margins.values)
    assert "What lowered its margin: token 0 by 7.12" in visit.page.text_content("#events")
    for id in ("moves", "runs", "training", "more"):
        assert visit.page.is_hidden(f"#{id}")
    visit.choose("#kind", "own")
    assert visit.page.is_visible("#runs")
    assert visit.page.is_visible("#plane")
    visit.fill("#rate-0", 10)
    assert np.array_equal(visit.array(0, "loss"), run.loss.values)


def test_names_of_ones_own_are_chosen_drawn_and_kept_in_the_address(own_names, visit, tmp_path):
    visit.open("#preset=negative")  # what comes next is computed once, when all of it is chosen
    choose = visit.page.select_option
    fill = lambda selector, value: (
        visit.page.fill(selector, str(value)),
        visit.page.press(selector, "Tab"),
    )
    for run in (3, 2):
        visit.page.click(f"[aria-label='Remove run {run}']")
    choose("#kind", "ring")
    fill("#turn", 0.3)
    choose("#system", "product")
    fill("#system-scale", 0.4)
    choose("#method-0", "lion")
    assert "<b>gradients</b>" in visit.page.text_content("#method-0")  # words, never elements
    fill("#beta-0", 0.8)
    fill("#rate-0", 10)
    choose("#sampling-0", "alternating")
    fill("#period-0", 3)
    choose("#add-record", "entropy")
    choose("#add-record", "product_norm")
    choose("#add-event", "worst")
    visit.settle()
    assert visit.get("engram.state.runs") == [
        {"kind": "lion", "learning_rate": 10, "beta": 0.8, "sampling": "alternating", "period": 3}
    ]
    run = engram.simulate(
        {"family": "ring", "num_tokens": 4, "turn": 0.3},
        {"kind": "lion", "learning_rate": 10.0, "beta": 0.8, "sampling": "alternating", "period": 3, "steps": 34},
        system={"kind": "product", "scale": 0.4},
        record=("loss", "error", "margins", "token_losses", "weights", "entropy", "product_norm"),
    )  # fmt: skip
    for name in ("loss", "margins"):
        assert np.array_equal(visit.array(0, name), run[name].values)
    for name in ("entropy", "product_norm"):
        values = visit.get(f"Array.from(engram.data.runs[0]['record.{name}'])")
        assert np.array_equal(np.array(values, float), run[name].values.ravel(), equal_nan=True)
        assert visit.page.is_visible(f"#record-{name}")
    assert "worst: worst_step = " in visit.page.text_content("#events")
    state, link = visit.get("engram.state"), visit.page.url
    visit.open("#" + link.split("#")[1])
    assert visit.get("engram.state") == state
    assert visit.page.is_hidden("#note")
    with visit.page.expect_download() as download:
        visit.page.click("#save-json")
    download.value.save_as(tmp_path / "out.json")
    exported = json.loads((tmp_path / "out.json").read_text())
    scope = {}
    exec(exported["python"], scope)
    assert exported["runs"][0]["loss"] == scope["runs"][0].loss.values.tolist()
    visit.open("#preset=fig2")
    visit.page.check("#system-layer_norm")
    visit.settle()
    assert visit.get("engram.data.state.start.scale") == 1
    assert visit.page.is_hidden("#plane-box")
    visit.open("#system=loss_only&run=gd,0.3&steps=34&record=entropy")
    assert "`error` is not defined for a LossOnly." in visit.page.text_content("#events")
    assert visit.get("document.documentElement.scrollWidth") <= 1400


def test_every_field_of_an_optimizer_is_a_control(visit):
    visit.open("#problem=two&correlation=0.5&p1=0.75&run=gd,0.3&steps=34")
    visit.choose("#method-0", "adamw")
    visit.page.click("#more-0")
    for name, value in (("b1", 0.5), ("b2", 0.9), ("eps", 1e-3), ("weight_decay", 0.1)):
        visit.fill(f"#{name}-0", value)
    table = {
        "kind": "adamw",
        "learning_rate": 0.3,
        "b1": 0.5,
        "b2": 0.9,
        "eps": 1e-3,
        "weight_decay": 0.1,
    }
    assert visit.get("engram.state.runs[0]") == table
    run = engram.simulate(engram.two_tokens(0.5, 0.75), table | {"steps": 34}, space="weights")
    assert np.array_equal(visit.array(0, "loss"), run.loss.values)
    assert "b1 0.5" in visit.page.text_content("#events")
    visit.choose("#batch-0", "16")
    assert visit.page.is_visible("#seed-0")
    visit.fill("#b1-0", "")
    assert "b1" not in visit.get("engram.state.runs[0]")
    state = visit.get("engram.state")
    visit.open("#" + visit.page.url.split("#")[1])
    assert visit.get("engram.state") == state


def test_addresses_with_faults_are_reported(visit):
    visit.open("#preset=nothing&problem=two&p1=many&run=fly,1&steps=20")
    said = visit.page.text_content("#note")
    assert "preset" in said
    assert "p1" in said
    assert "run" in said
    assert visit.get("engram.data.state.steps") == 20


@pytest.mark.parametrize("preset", ["fig2", "fig6"])
def test_pictures_numbers_and_lines_can_be_taken_away(visit, preset, tmp_path, capsys):
    visit.context.grant_permissions(["clipboard-read", "clipboard-write"])
    visit.open(f"#preset={preset}")
    saved = {}
    for name in ("png", "svg", "json"):
        with visit.page.expect_download() as download:
            visit.page.click(f"#save-{name}")
        saved[name] = tmp_path / f"out.{name}"
        download.value.save_as(saved[name])
    assert saved["png"].read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    svg = saved["svg"].read_text()
    assert svg.startswith("<svg")
    assert svg.count("<path") > 20
    assert "NaN" not in svg
    exported = json.loads(saved["json"].read_text())
    for k, run in enumerate(exported["runs"]):
        assert np.array_equal(np.array(run["margins"]), visit.array(k, "margins"))
    scope = {}
    exec(exported["python"], scope)
    assert capsys.readouterr().out
    for run, computed in zip(exported["runs"], scope["runs"], strict=True):
        assert run["loss"] == computed.loss.values.tolist()
    visit.page.click("#show-python")
    visit.page.wait_for_selector("#python-dialog[open]")
    assert visit.page.input_value("#python-text") == exported["python"]
    visit.page.click("#copy-python")
    assert visit.get("navigator.clipboard.readText()") == exported["python"]
    visit.page.keyboard.press("Escape")
    visit.page.click("#copy-link")
    visit.page.wait_for_selector("#note:not([hidden])")
    assert visit.get("navigator.clipboard.readText()") == visit.page.url


def test_what_the_server_refuses_is_shown_and_recovered_from(browser, explorer):
    visit = Visit(browser, explorer).open("#preset=fig2")
    visit.page.fill("#rate-0", "-3")
    visit.page.wait_for_selector("#message:not([hidden])")
    assert "runs.0.learning_rate: must be at least 0, got -3" in visit.page.text_content("#message")
    assert visit.page.get_attribute("#rate-0", "aria-invalid") == "true"
    assert visit.get("engram.data.state.runs[0].learning_rate") == 10  # the last good picture stays
    visit.fill("#rate-0", 4)
    assert visit.page.is_hidden("#message")
    assert visit.page.get_attribute("#rate-0", "aria-invalid") is None
    visit.page.fill("#steps", "")
    visit.page.press("#steps", "Tab")
    visit.page.wait_for_selector("#message:not([hidden])")
    visit.fill("#steps", 40)
    assert visit.array(0, "loss").shape == (41,)
    # Chromium itself notes each refusal; there is nothing else.
    assert all("422" in fault for fault in visit.faults)
    visit.context.close()


def test_a_refusal_leaves_no_old_plane_behind(browser, explorer):
    visit = Visit(browser, explorer).open("#problem=two&correlation=0.5&p1=0.75&run=gd,1&steps=34")
    visit.page.fill("#rate-0", "-1")
    visit.page.wait_for_selector("#message:not([hidden])")
    # The view and the axes are those of the picture, whatever the fields say.
    visit.page.fill("#half", "-5")
    visit.choose("#loss-scale", "linear")
    assert visit.get("[engram.data.state.view.half, engram.data.state.runs[0].learning_rate]") == [
        10,
        1,
    ]
    visit.fill("#half", "9")
    visit.fill("#correlation", "-0.5")  # refused too, for the rate is still bad
    visit.fill("#rate-0", "2")
    assert visit.page.is_hidden("#message")
    shown = visit.get("Array.from(engram.data.plane.sector_begin)")
    assert shown == planes.error_regions(engram.two_tokens(-0.5, 0.75)).begin.values.tolist()
    visit.page.fill("#steps", "")
    visit.page.press("#steps", "Tab")
    visit.page.wait_for_selector("#message:not([hidden])")
    assert visit.page.text_content("#readout-step") == "34"
    # A link that cannot be computed comes to life when its fault is mended.
    visit.page.goto(
        f"{explorer.url}?by=server&bad#problem=two&correlation=0.5&p1=0.75&run=gd,-1&steps=34"
    )
    visit.page.wait_for_selector("#message:not([hidden])")
    visit.page.fill("#rate-0", "2")
    visit.until("engram.redraws > 0")
    assert all("422" in fault for fault in visit.faults)
    visit.context.close()


def test_links_with_nonsense_are_reported_and_drawn(visit):
    for link in (
        "show=log,linear,-1", "show=log,linear,0.5", "problem=toString", "run=constructor,1", "t=-5", "t=3.7",
        "run=gd,1&run=gd,2&run=gd,3&run=gd,4&run=gd,5", "start=1", "p1=%E0%A4%A", "view=a,b,c",
    ):  # fmt: skip
        visit.open(f"#{link}")
        assert "This link has errors" in visit.page.text_content("#note"), link


def test_angles_are_true_and_ticks_differ(visit):
    visit.open("#problem=two&correlation=0.5&p1=0.75&run=gd,1&steps=34&view=1000,1000,0.5")
    scales = visit.get(
        """import('/static/pictures.js').then((m) => { const c = document.getElementById('plane');
        const { x, y } = m.planeAxes(engram.data.state.view, c.clientWidth, c.clientHeight);
        return [x(1000.1) - x(1000), y(1000) - y(1000.1), x.ticks().map(x.label), y.ticks().map(y.label)]; })"""
    )
    assert scales[0] == pytest.approx(scales[1])
    assert len(set(scales[2])) == len(scales[2]) > 3
    assert visit.get("engram.data.plane.level_values.length") > 3


def test_the_steps_slider_goes_by_one_at_least(visit):
    visit.open("#preset=fig2")
    visit.fill("#steps", 20)
    visit.page.focus("#steps-slider")
    visit.page.keyboard.press("ArrowRight")
    visit.settle()
    assert visit.get("engram.state.steps") == 21
    visit.page.keyboard.press("ArrowLeft")
    visit.page.keyboard.press("ArrowLeft")
    visit.settle()
    assert visit.get("engram.state.steps") == 19


def test_a_foreign_server_on_the_port_is_survived(browser):
    first = Explorer(warm=False).start()
    visit = Visit(browser, first).open("#preset=fig2")
    first.stop()

    asked = threading.Event()

    class Foreign(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<p>not ours</p>")
            asked.set()

        def log_message(self, *args):
            pass

    http.server.HTTPServer.allow_reuse_address = True
    foreign = http.server.HTTPServer(("127.0.0.1", first.port), Foreign)
    thread = threading.Thread(target=foreign.serve_forever)
    thread.start()
    visit.until("document.getElementById('status').textContent.includes('does not answer')")
    assert asked.wait(60)
    foreign.shutdown()
    thread.join()
    foreign.server_close()
    second = Explorer(first.port, warm=False).start()
    try:
        visit.until("document.getElementById('status').textContent === 'ready'")
        visit.fill("#rate-0", 5)
        assert visit.get("engram.data.state.runs[0].learning_rate") == 5
    finally:
        visit.context.close()
        second.stop()


def test_a_finger_sets_the_start_and_the_cursor(browser, explorer):
    phone = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
    visit = Visit(browser, explorer, **phone).open("#preset=fig2")
    box = visit.page.locator("#plane").bounding_box()
    visit.page.touchscreen.tap(box["x"] + 250, box["y"] + 60)
    visit.settle()
    assert visit.get("engram.state.start.a") > 3
    visit.page.locator("#loss").tap()
    visit.settle()
    assert 5 < visit.get("engram.cursor") < 30
    visit.context.close()
    assert visit.faults == []


def test_words_are_not_repeated(visit):
    visit.open("#preset=fig2")
    # What is read aloud again is what is set again. (An answer that takes long changes the words, and back.)
    visit.get(
        """void (engram.spoken = [], new MutationObserver((changes) => { for (const change of changes)
        engram.spoken.push([change.removedNodes, change.addedNodes].map((nodes) => [...nodes].map((node) => node.data).join())); })
        .observe(document.getElementById('status'), { childList: true, characterData: true, subtree: true }))"""
    )
    drawn = visit.get("engram.redraws")
    visit.page.focus("#p1-slider")
    for _ in range(6):
        visit.page.keyboard.press("ArrowRight")
        visit.settle()
    assert visit.get("engram.redraws") >= drawn + 6
    assert [before for before, after in visit.get("engram.spoken") if before == after] == []
    visit.page.click("#reset")
    visit.settle()
    assert visit.get("document.activeElement.id") == "preset"


def test_the_page_outlives_the_server(browser):
    first = Explorer(warm=False).start()
    visit = Visit(browser, first).open("#preset=fig2")
    first.stop()
    visit.page.fill("#rate-0", "5")
    visit.until("document.getElementById('status').textContent.includes('does not answer')")
    second = Explorer(first.port, warm=False).start()
    try:
        visit.until("engram.data.state.runs[0].learning_rate === 5")
        visit.until("document.getElementById('status').textContent === 'ready'")
    finally:
        visit.context.close()
        second.stop()


def test_an_error_of_the_servers_own_is_shown(browser, explorer, monkeypatch):
    visit = Visit(browser, explorer).open("#preset=fig2")

    def broken(*args):
        raise RuntimeError("no")

    with monkeypatch.context() as patch:
        patch.setattr(payloads, "compute", broken)
        visit.page.fill("#rate-0", "5")
        visit.page.wait_for_selector("#message:not([hidden])")
        assert "internal error" in visit.page.text_content("#message")
    visit.fill("#rate-0", 6)
    assert visit.page.is_hidden("#message")
    visit.context.close()


def test_a_phone_shows_all_of_it(browser, explorer):
    phone = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
    visit = Visit(browser, explorer, **phone)
    settings = "problem=sphere&num_tokens=3&num_classes=3&dim=3&run=adamw,0.3&record=grad_norm"
    for link in ("preset=fig2", "preset=fig6", settings):
        visit.open(f"#{link}")
        assert visit.page.is_hidden("#controls")  # the picture comes first
        tops = [
            visit.page.locator(id).bounding_box()["y"]
            for id in ("#intro", "#pictures", "#traces", "#words")
        ]
        assert tops == sorted(tops)
        visit.page.click("#open-controls")
        assert visit.page.get_attribute("#open-controls", "aria-expanded") == "true"
        if link == settings:
            visit.page.click("#more-0")
        assert visit.get("document.documentElement.scrollWidth") <= 360
        small = visit.get(
            """[...document.querySelectorAll('button, select, input[type=number]')].filter((e) => e.offsetParent)
            .map((e) => [e.id, e.getBoundingClientRect()]).filter(([, b]) => b.height < 24 || b.width < 24).map(([id]) => id)"""
        )
        assert small == []
    visit.context.close()
    assert visit.faults == []


def test_the_keyboard_reaches_everything(visit):
    visit.open("#preset=fig2&pushes=shown")
    visit.page.click("#keep")
    wanted = set(
        visit.get(
            """[...document.querySelectorAll('main button, main select, main input, header button, canvas[tabindex]')]
            .filter((e) => e.offsetParent && !e.disabled && !(e.type === 'radio' && !e.checked)).map((e) => e.id || e.textContent)"""
        )
    )
    reached = set()
    for _ in range(len(wanted) + 40):
        visit.page.keyboard.press("Tab")
        reached.add(visit.get("document.activeElement.id || document.activeElement.textContent"))
    assert wanted - reached == set()


def luminance(colour):
    parts = np.array([int(v) for v in re.findall(r"\d+", colour)[:3]]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def test_everything_has_a_name_and_contrast(visit):
    visit.open("#preset=fig2&pushes=shown")
    visit.page.click("#keep")  # what is kept has controls and pictures too
    visit.page.evaluate("document.getElementById('guide').hidden = false")
    unnamed = visit.get(
        """[...document.querySelectorAll('button, select, input, canvas, textarea')].filter((e) => e.offsetParent)
        .filter((e) => !(e.labels?.length || e.getAttribute('aria-label') || e.getAttribute('aria-labelledby')
          || e.textContent.trim())).map((e) => e.outerHTML.slice(0, 80))"""
    )
    assert unnamed == []
    assert visit.get("document.documentElement.lang") == "en"
    shown = visit.get(
        """[...document.querySelectorAll('p, label, legend, h1, h2, h3, button, td, th, li, output')].filter((e) => e.offsetParent && e.textContent.trim())
        .map((e) => { let back = e, seen; do { seen = getComputedStyle(back).backgroundColor; back = back.parentElement; } while (back && seen === 'rgba(0, 0, 0, 0)');
          return [e.textContent.slice(0, 30), getComputedStyle(e).color, seen, e.disabled ?? false]; })"""
    )
    for words, ink, paper, is_disabled in shown:
        light, dark = sorted([luminance(ink), luminance(paper)], reverse=True)
        assert is_disabled or (light + 0.05) / (dark + 0.05) >= 4.5, words  # WCAG AA
    for colour in visit.get(
        "import('/static/looks.js').then((m) => m.RUNS)"
    ):  # lines need 3 against the darkest sector, the white halo aside
        rgb = str([int(colour[k : k + 2], 16) for k in (1, 3, 5)])
        assert (luminance("142 187 227") + 0.05) / (luminance(rgb) + 0.05) >= 1.9, colour


def test_a_first_look_begins_in_motion_until_something_is_touched(browser, explorer):
    visit = Visit(browser, explorer)
    for address, is_playing in (("", "true"), ("#preset=fig2", "false")):
        visit.page.goto(f"{visit.url}?{time.monotonic_ns()}{address}")
        visit.until("engram.redraws > 0")
        assert visit.page.get_attribute("#play", "aria-pressed") == is_playing
        if address:
            continue
        visit.until("engram.cursor > 0")
        visit.page.mouse.click(5, 5)
        assert visit.page.get_attribute("#play", "aria-pressed") == "false"
        assert visit.get("engram.cursor") < 34
    visit.context.close()
    assert visit.faults == []


def test_calm_pages_do_not_begin_in_motion(browser, explorer):
    visit = Visit(browser, explorer, reduced_motion="reduce").open()
    assert visit.page.get_attribute("#play", "aria-pressed") == "false"
    assert visit.get("engram.cursor") == 34
    visit.context.close()


def test_another_presets_text_is_never_beside_a_clear_old_picture(visit):
    visit.open("#preset=fig2")
    ink = "getComputedStyle(document.getElementById('plane')).opacity"
    assert visit.get(ink) == "1"
    visit.get(
        "void (globalThis.plain = fetch, globalThis.held = [], globalThis.fetch = (...a) => new Promise((go) => held.push(() => go(plain(...a)))))"
    )
    visit.page.select_option("#preset", "negative")
    assert "repel" in visit.page.text_content("#commentary")
    assert float(visit.get(ink)) < 0.5
    visit.get("void (globalThis.fetch = plain, held.forEach((go) => go()))")
    visit.settle()
    assert visit.get(ink) == "1"
    assert visit.get("engram.data.runs.length") == 3


def test_calm_motion_moves_in_few_jumps(browser, explorer):
    visit = Visit(browser, explorer, reduced_motion="reduce")
    visit.page.clock.install(time=0)
    visit.open("#preset=fig2")
    visit.page.clock.pause_at(3_600_000)
    visit.page.click("#play")
    seen = []
    for _ in range(43):
        seen.append(visit.get("engram.cursor"))
        visit.page.clock.run_for(30)
    # In 1.29 seconds two jumps, by what 34 steps in eight seconds are in half a second.
    assert sorted(set(seen)) == [0, 2, 4]
    assert seen == sorted(seen)
    visit.context.close()


def test_a_drag_piles_nothing_up(visit):
    visit.open("#preset=fig2")
    visit.get(
        "void (engram.sent = 0, globalThis.plain = fetch, globalThis.fetch = (...a) => { engram.sent += 1; return plain(...a); })"
    )
    drawn = visit.get("engram.redraws")
    visit.get(
        """(async () => { const s = document.getElementById('correlation-slider');
        for (let k = 0; k < 300; k++) { s.value = -0.9 + 0.006 * k; s.dispatchEvent(new Event('input'));
          if (k % 5 === 0) await new Promise((r) => setTimeout(r, 5)); } })()"""
    )
    visit.settle()
    sent, drawn = visit.get("engram.sent"), visit.get("engram.redraws") - drawn
    assert visit.get("engram.data.state.problem.correlation") == pytest.approx(
        0.89
    )  # the slider goes by hundredths
    assert drawn <= sent + 2 < 100  # of three hundred changes
    assert len(visit.get("engram.latencies")) > 0


def test_names_are_shown_as_text(visit, explorer):
    names = ("Constantinople", "<img src=x onerror=alert(1)>", "Ur", "Rome")
    inputs = [[1.0, 0.0], [0.9, 0.4], [-0.9, 0.5], [0.3, 1.0]]
    outputs = np.random.default_rng(0).normal(size=(2, 3))
    explorer.own["0123abcd"] = engram.Problem(
        inputs, outputs, [0.4, 0.3, 0.2, 0.1], [0, 1, 0, 1], names=names
    )
    visit.open("#problem=own&name=0123abcd&run=gd,5&steps=60&start=0,0")
    assert visit.page.is_visible("#plane")
    assert visit.page.text_content("#about-problem").startswith(
        "N = 4 tokens, M = 2 classes, d = 2, k = 3;"
    )
    head = visit.page.text_content("#readout thead")
    assert all(f"margin {name}" in head for name in names)
    texts = visit.get("engram.data.runs[0].events.map((event) => event.text).join()")
    assert "token Ur" in texts
    assert visit.page.locator("img").count() == 0
