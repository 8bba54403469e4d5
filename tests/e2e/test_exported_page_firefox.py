"""The exported page in Firefox, from a file and with no network: the same numbers as the library's."""

import itertools
import json
import shutil
import socket
import subprocess
import time

import numpy as np
import pytest

import engram
from engram.explorer import export

FIREFOX = next(filter(None, map(shutil.which, ("firefox-esr", "firefox"))), None)
pytestmark = pytest.mark.skipif(FIREFOX is None, reason="no Firefox here")
NOWHERE = {"type": 1, "http": "127.0.0.1", "http_port": 9, "ssl": "127.0.0.1", "ssl_port": 9}


class Firefox:
    """A Firefox without a window, spoken to by its own protocol, Marionette."""

    def __init__(self, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        settings = {"marionette.port": port}
        settings |= {f"network.proxy.{name}": value for name, value in NOWHERE.items()}
        lines = [f'user_pref("{name}", {json.dumps(value)});' for name, value in settings.items()]
        (folder / "user.js").write_text("\n".join(lines), encoding="utf-8")
        options = ["--headless", "--marionette", "--no-remote", "--profile", str(folder)]
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen([str(FIREFOX), *options], **silent)
        self.count, self.left, self.line = itertools.count(1), b"", None
        try:
            self.line = self.connect(port)
            self.read()
            self.ask("NewSession", {"capabilities": {"alwaysMatch": {}}})
        except BaseException:
            self.close()
            raise

    def connect(self, port):
        end = time.monotonic() + 60
        while True:
            try:
                return socket.create_connection(("127.0.0.1", port), timeout=60)
            except ConnectionRefusedError:
                assert time.monotonic() < end, "Firefox does not answer"
                time.sleep(0.05)

    def read(self):
        while b":" not in self.left:
            self.left += self.line.recv(65536)
        size, _, text = self.left.partition(b":")
        while len(text) < int(size):
            text += self.line.recv(65536)
        self.left = text[int(size) :]
        return json.loads(text[: int(size)])

    def ask(self, name, more):
        message = json.dumps([0, next(self.count), f"WebDriver:{name}", more]).encode()
        self.line.sendall(b"%d:%s" % (len(message), message))
        _, _, error, answer = self.read()
        assert error is None, error
        return answer.get("value")

    def run(self, script):
        return self.ask("ExecuteScript", {"script": script, "args": []})

    def get(self, expression):
        return self.run(f"return {expression}")

    def until(self, condition):
        end = time.monotonic() + 60
        is_there = f"document.readyState === 'complete' && globalThis.engram && ({condition})"
        while not self.get(f"Boolean({is_there})"):
            assert time.monotonic() < end, f"{condition} did not come"
            time.sleep(0.02)

    def open(self, address):
        self.ask("Navigate", {"url": address})
        self.until("engram.redraws > 0 && engram.isSettled()")

    def close(self):
        if self.line is not None:
            self.line.close()
        self.process.terminate()
        self.process.wait(30)


@pytest.fixture(scope="module")
def firefox(tmp_path_factory):
    started = Firefox(tmp_path_factory.mktemp("profile"))
    started.address = export(tmp_path_factory.mktemp("page") / "page.html").as_uri()
    yield started
    started.close()


def test_a_change_shows_the_librarys_numbers(firefox):
    firefox.open(f"{firefox.address}#preset=fig2")
    assert firefox.get("document.getElementById('status').textContent") == "computed in this page"
    firefox.run(
        """const rate = document.getElementById('rate-0');
        rate.value = '4'; rate.dispatchEvent(new Event('input')); rate.dispatchEvent(new Event('change'));"""
    )
    firefox.until("engram.data.state.runs[0].learning_rate === 4 && engram.isSettled()")
    run = engram.simulate(engram.two_tokens(0.95, 0.75), engram.GradientDescent(4.0, 34))
    shown = firefox.get("Array.from(engram.data.runs[0].loss)")
    np.testing.assert_allclose(shown, run.loss.values, rtol=1e-11)
    assert "learning_rate=4" in firefox.get("location.hash")


@pytest.mark.parametrize("preset", ["fig4-sgd", "fig6", "log-growth"])
def test_presets_draw(firefox, preset):
    firefox.open(f"{firefox.address}?{preset}#preset={preset}&pushes=shown")
    assert firefox.get("document.getElementById('message').hidden")
    name = "plane" if firefox.get("engram.data.plane.has_plane") else "fan-0"
    for canvas in (name, "loss", "sharpness"):  # more than one colour
        assert firefox.get(
            f"""(() => {{ const c = document.getElementById('{canvas}');
            const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
            return new Set(new Uint32Array(d.buffer)).size; }})()"""
        ) > 3, canvas  # fmt: skip
    firefox.until("document.getElementById('pushes-words').textContent.includes('strongest')")
