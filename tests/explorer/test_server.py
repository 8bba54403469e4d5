"""The server: what it serves, whom it refuses, and that nothing sent to it makes it fall."""

import contextlib
import html
import http.client
import json
import logging
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import numpy as np
import pytest
from contract import unpack
from hypothesis import given, settings
from hypothesis import strategies as st

import engram
from engram._checks import InputError
from engram.explorer import Explorer, _http, payloads
from engram.explorer import server as module

STATE = {
    "problem": {"kind": "two", "correlation": 0.95, "p1": 0.75},
    "runs": [{"method": "gd", "rate": 10.0}],
    "steps": 34,
}
ASKED = {"client": "test", "parts": ["plane", "runs"], "state": STATE}


@pytest.fixture(scope="module")
def web(explorer):
    with httpx.Client(base_url=explorer.url, timeout=60, trust_env=False) as client:
        yield client


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.002)


def test_it_listens_on_loopback_only(explorer):
    assert explorer._socket.getsockname()[0] == "127.0.0.1"
    assert explorer.url == f"http://127.0.0.1:{explorer.port}/"


def test_pages_carry_the_headers(web):
    for path in (
        "/",
        "/static/main.js",
        "/static/explorer.css",
        "/api/status",
        "/api/presets",
        "/api/catalogue",
    ):
        answer = web.get(path)
        assert answer.status_code == 200
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in answer.headers
        assert "server" not in answer.headers


def test_the_page_asks_for_nothing_from_elsewhere(web):
    names = [*re.findall(r'(?:src|href)="([^"]+)"', web.get("/").text)]
    assert names
    for name in names:
        assert name.startswith(("/static/", "#")), name
    folder = Path(module.__file__).with_name("static")
    files = {file.relative_to(folder).as_posix() for file in folder.rglob("*.*")}
    assert "engine/worker.js" in files
    for name in files:
        answer = web.get(f"/static/{name}")
        assert answer.status_code == 200
        text = answer.text
        outside = set(re.findall(r"https?://[^\s\"'`)]+", text)) - {"http://www.w3.org/2000/svg"}
        assert not outside, name
        home = name[: name.rfind("/") + 1]
        for used in re.findall(r"(?:from|URL\()\s*'\./([^']+)'", text):
            assert f"{home}{used}" in files


def test_compute_answers_with_the_librarys_numbers(web):
    answer = web.post("/api/compute", json=ASKED)
    assert answer.status_code == 200
    header, arrays = unpack(answer.content)
    problem = engram.two_tokens(0.95, 0.75)
    run = engram.simulate(problem, engram.GradientDescent(10.0, 34))
    assert np.array_equal(arrays["runs.0.loss"], run.loss.values)
    assert header["runs"][0]["num_spikes"] == int(run.num_spikes)
    lines = web.post("/api/python", json=ASKED).text
    assert "{'kind': 'gd', 'learning_rate': 10.0, 'steps': 34}" in lines


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1.evil.example:80"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "https://127.0.0.1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_other_hosts_and_pages_are_refused(web, headers):
    for answer in (
        web.get("/api/status", headers=headers),
        web.post("/api/compute", json=ASKED, headers=headers),
        web.get("/static/main.js", headers=headers),
    ):
        assert answer.status_code == 403
        assert "content-security-policy" in answer.headers


def test_its_own_page_is_answered_by_either_name(explorer, web):
    for host in (f"127.0.0.1:{explorer.port}", f"localhost:{explorer.port}"):
        headers = {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
        assert web.post("/api/compute", json=ASKED, headers=headers).status_code == 200
    # A link from elsewhere to the page itself may be followed.
    followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "document"}
    assert web.get("/", headers=followed).status_code == 200


@pytest.mark.parametrize(
    "path",
    ["/static/../server.py", "/static/..%2fserver.py", "/static/%2e%2e/%2e%2e/__init__.py",
     "//static/main.js", "/static/", "/static/main.js/", "/static/main.js%00", "/server.py",
     "/static/....//server.py", "/etc/passwd", "/api", "/api/compute/x"],
)  # fmt: skip
def test_no_other_file_is_served(explorer, path):
    with socket.create_connection(("127.0.0.1", explorer.port), timeout=10) as raw:
        head = (
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{explorer.port}\r\nConnection: close\r\n\r\n"
        )
        raw.sendall(head.encode())
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    status = int(answer.split()[1])
    assert status in (404, 405, 307, 400, 403)
    assert b"import " not in answer


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "GET", "HEAD"])
def test_other_methods_are_refused(web, method):
    assert web.request(method, "/api/compute").status_code == 405


def test_bodies_are_bounded_in_size_and_kind(web):
    large = b" " * (module.MOST_BYTES + 1)
    said = web.post("/api/compute", content=large, headers={"Content-Type": "application/json"})
    assert said.status_code == 422
    assert "at most 32768 bytes" in said.json()["error"]
    said = web.post(
        "/api/compute", content=json.dumps(ASKED), headers={"Content-Type": "text/plain"}
    )
    assert said.status_code == 422
    assert "JSON" in said.json()["error"]


def test_a_missing_body_times_out(explorer, monkeypatch):
    monkeypatch.setattr(module, "_BODY_SECONDS", 0.2)
    with socket.create_connection(("127.0.0.1", explorer.port), timeout=10) as raw:
        raw.sendall(
            f"POST /api/compute HTTP/1.1\r\nHost: 127.0.0.1:{explorer.port}\r\n"
            "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{".encode()
        )
        said = b""  # the head and the body may come one after the other
        while b"must come within" not in said:
            more = raw.recv(65536)
            assert more, said
            said += more


def is_closed(raw):
    try:
        return raw.recv(100)[:12] in (b"", b"HTTP/1.1 408")
    except ConnectionError:
        return True


def test_connections_that_send_nothing_are_closed(explorer, monkeypatch):
    monkeypatch.setattr(_http, "REQUEST_SECONDS", 0.3)
    port = explorer.port
    silent = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(50)]
    try:
        for raw in silent:
            raw.sendall(b"GET / HTTP/1.1\r\nHo")
        assert all(map(is_closed, silent))
        assert httpx.get(explorer.url, trust_env=False).status_code == 200
    finally:
        for raw in silent:
            raw.close()


def test_half_open_connections_do_not_block_others(explorer):
    port = explorer.port
    head = f"POST /api/compute HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    parts = [b"", b"GET / HTTP/1.1\r\nHo", f"{head}Content-Length: 100\r\n\r\n{{".encode()]
    page = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    page.request("GET", "/")
    page.getresponse().read()
    silent = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(200)]
    try:
        for number, raw in enumerate(silent):
            with contextlib.suppress(OSError):  # closed already, for a newer one
                raw.sendall(parts[number % 3])
        assert httpx.get(explorer.url, trust_env=False, timeout=60).status_code == 200
        assert len(explorer._server.server_state.connections) <= _http.MOST_WAITING + 1
        page.request("GET", "/")  # on the connection that it had before them
        assert page.getresponse().status == 200
    finally:
        for raw in (*silent, page):
            raw.close()


def test_leaving_within_a_request_is_not_an_error(explorer, caplog):
    head = f"POST /api/compute HTTP/1.1\r\nHost: 127.0.0.1:{explorer.port}\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"
    state = explorer._server.server_state
    for _ in range(5):
        before = state.total_requests
        with socket.create_connection(("127.0.0.1", explorer.port), timeout=10) as raw:
            raw.sendall(f"{head}{{".encode())
        until(lambda before=before: not state.tasks and state.total_requests >= before)
    assert httpx.get(explorer.url, trust_env=False).status_code == 200
    assert not caplog.records


def test_a_script_that_explores_ends_quietly():
    script = "import engram, time; engram.explore(); time.sleep(4)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_request_whose_client_leaves_is_ended(explorer):
    slow = STATE | {"steps": 20_000, "problem": {"kind": "paper", "name": "fig6-10"}}
    slow |= {"runs": [{"method": "gd", "rate": 1.0}] * 4}
    body = json.dumps({"client": "leaver", "parts": ["runs"], "state": slow}).encode()
    head = (
        f"POST /api/compute HTTP/1.1\r\nHost: 127.0.0.1:{explorer.port}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", explorer.port), timeout=10) as raw:
        raw.sendall(head.encode() + body)
        until(lambda: "leaver" in explorer.jobs._at_work)
        ticket = explorer.jobs._at_work["leaver"]
    until(lambda: not explorer.jobs._at_work)
    assert ticket.is_stale


def test_long_names_are_not_repeated_whole(web):
    answer = web.post("/api/compute", json=ASKED | {"x" * 20_000: 1})
    assert answer.status_code == 422
    assert len(answer.json()["error"]) < 500
    assert web.get("/nowhere").json() == {"error": "Not Found."}


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@st.composite
def spoilt(draw):
    """A good request in which one entry, anywhere, is something else."""
    more = {"start": {"a": 0, "b": 0}, "view": {"half": 5}}
    tables = {
        "problem": {"family": "two", "correlation": 0.95, "p1": 0.75},
        "system": {"kind": "memory", "layer_norm": False},
        "runs": [{"kind": "adam", "learning_rate": 1.0, "b1": 0.5, "sampling": "everything"}],
        "record": [{"kind": "grad_norm"}],
        "events": [],
    }
    state = STATE | draw(st.sampled_from([more, tables]))
    request = json.loads(json.dumps(ASKED | {"state": state}))
    at = request
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        key = draw(st.sampled_from(keys))
        inside = at[key]
        if isinstance(inside, dict | list) and inside and draw(st.booleans()):
            at = inside
            continue
        at[key] = draw(junk)
        return json.dumps(request).encode()


# The server, in another thread, may draw random numbers while an example is being drawn here.
@pytest.mark.filterwarnings("ignore:Do not use the .random. module")
@settings(max_examples=150)
@given(st.binary(max_size=200) | junk.map(lambda value: json.dumps(value).encode()) | spoilt())
def test_malformed_requests_are_refused_with_a_message(web, body):
    answer = web.post("/api/compute", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (200, 422)
    if answer.status_code == 422:
        assert len(answer.json()["error"]) > 10


def test_extreme_states_are_answered(web):
    extremes = [
        {"problem": {"kind": "two", "correlation": c, "p1": p}} for c in (-1, 0, 1) for p in (0, 1)
    ] + [
        {"runs": [{"method": method, "rate": rate}]}
        for method in ("gd", "flow", "adam", "normalised")
        for rate in (1e6, 1e-6)
    ] + [
        {"start": {"a": 1e4, "b": -1e4}}, {"view": {"x": 1e4, "y": -1e4, "half": 0.01}},
        {"view": {"half": 1e4, "overlay": "sharpness"}}, {"steps": 1},
        {"problem": {"kind": "table", "tokens": [{"x": 0, "y": 0, "target": 1, "prob": 1}]}},
        {"problem": {"kind": "table", "tokens": [{"x": 1, "y": 0, "target": 0, "prob": 1}]}},
    ]  # fmt: skip
    for change in extremes:
        answer = web.post("/api/compute", json=ASKED | {"state": STATE | change})
        assert answer.status_code == 200, (change, answer.text)  # what takes too long is refused
        header, arrays = unpack(answer.content)
        assert header["runs"][0]["status"] in ("completed", "not finite", "step limit"), change
        assert len(arrays["runs.0.loss"])


def test_a_slider_that_outruns_the_server_is_answered_once(explorer, monkeypatch):
    arrived, answer, all_are_here = [], explorer.jobs.answer, threading.Event()

    def counted(client, work, **options):
        arrived.append(client)

        def slow(ticket):  # slower than the slider, however fast the machine is
            all_are_here.wait(60)
            return work(ticket)

        return answer(client, slow, **options)

    monkeypatch.setattr(explorer.jobs, "answer", counted)
    slow = STATE | {"steps": 20_000, "problem": {"kind": "paper", "name": "fig6-10"}}
    answers = {}

    def ask(number):
        rate = {"runs": [{"method": "gd", "rate": 1.0 + number}] * 4}
        body = {"client": "slider", "parts": ["runs"], "state": slow | rate}
        with httpx.Client(base_url=explorer.url, timeout=120, trust_env=False) as client:
            answers[number] = client.post("/api/compute", json=body)

    threads = []
    for number in range(8):
        threads.append(threading.Thread(target=ask, args=(number,)))
        threads[-1].start()
        until(lambda number=number: len(arrived) > number)  # so that they come in this order
    all_are_here.set()
    for thread in threads:
        thread.join()
    codes = [answers[number].status_code for number in range(8)]
    assert codes == [204] * 7 + [200]  # dropped, without a body, but for the last
    assert not explorer.jobs._at_work


def test_internal_errors_are_reported_and_survived(explorer, web, monkeypatch):
    def broken(*args):
        raise RuntimeError("secret path /home")

    monkeypatch.setattr(payloads, "compute", broken)
    answer = web.post("/api/compute", json=ASKED)
    assert answer.status_code == 500
    assert "internal error" in answer.json()["error"]
    assert "secret" not in answer.text
    monkeypatch.undo()
    assert web.post("/api/compute", json=ASKED).status_code == 200


def test_the_users_own_logging_is_left_alone(tmp_path):
    handler = logging.FileHandler(tmp_path / "mine.log")
    logger = logging.getLogger("mine")
    logger.addHandler(handler)
    try:
        made = Explorer(warm=False).start()
        httpx.get(made.url, trust_env=False)
        made.stop()
        assert handler.stream is not None
        assert not handler.stream.closed
        logger.warning("still here")
        assert "still here" in (tmp_path / "mine.log").read_text()
    finally:
        logger.removeHandler(handler)
        handler.close()


def test_a_taken_port_is_reported(explorer):
    with pytest.raises(InputError, match="must be free on 127.0.0.1"):
        Explorer(explorer.port)


def test_it_starts_again_where_it_was():
    first = Explorer(warm=False).start()
    first.stop()
    second = Explorer(first.port, warm=False).start()
    try:
        assert second.port == first.port
        assert httpx.get(second.url, trust_env=False).status_code == 200
    finally:
        second.stop()


def test_warming_reports_how_far_it_is(monkeypatch):
    from engram.explorer import _presets

    broken = ("broken", {"problem": {"kind": "none"}})
    monkeypatch.setattr(_presets, "COMMON_STATES", [broken, *_presets.COMMON_STATES[:1]])
    made = Explorer().start()
    try:
        for _ in range(600):
            status = httpx.get(f"{made.url}api/status", trust_env=False).json()["warming"]
            if status["done"] == status["total"]:
                break
            assert status["now"]
            time.sleep(0.1)
        assert status == {"done": 2, "total": 2, "now": None}
    finally:
        made.stop()


def test_explore_shows_a_problem_of_ones_own():
    from engram.explorer import _notebook

    problem = engram.on_sphere(0, 5, 2, 2)
    try:
        page = engram.explore(problem, height=500)
        again = engram.explore(problem.astype("float32"))
        assert page.url != again.url
        assert page.url.split("#")[0] == again.url.split("#")[0]  # one server for the session
        shown = html.unescape(page._repr_html_())
        assert f'"page":"{page.url}"' in shown  # which takes the place of the page in the frame
        assert f'href="{page.url}"' in shown
        assert 'height="500"' in shown
        name = page.url.split("name=")[1]
        body = ASKED | {"state": STATE | {"problem": {"kind": "own", "name": name}}}
        with httpx.Client(base_url=page.url.split("#")[0], timeout=60, trust_env=False) as client:
            header, _ = unpack(client.post("/api/compute", json=body).content)
            assert header["plane"]["sizes"] == [5, 2, 2]
            given = client.get(f"/api/own/{name}").json()  # for the page's engine
            assert given["inputs"] == np.ravel(problem.inputs).tolist()
            assert client.get("/api/own/01234567").status_code == 422
            # A notebook's page sees by this picture that the server can be reached.
            elsewhere = {"sec-fetch-site": "cross-site", "sec-fetch-dest": "image"}
            sign = re.search(r'"here":"([^"]*)"', shown)
            assert sign is not None
            answer = client.get(sign[1], headers=elsewhere)
            assert answer.headers["content-type"] == "image/svg+xml"
            assert answer.headers["cross-origin-resource-policy"] == "cross-origin"
            assert client.get("/here/another", headers=elsewhere).status_code == 404
            assert client.get("/api/status", headers=elsewhere).status_code == 403
            policy = client.get("/").headers["content-security-policy"]
            assert "frame-ancestors 'self' http://localhost:* http://127.0.0.1:*" in policy
    finally:
        running, _notebook._running = _notebook._running, None
        running.stop()
        assert all(own.probs.dtype == np.float64 for own in running.own.values())
    with pytest.raises(InputError, match="engram.Problem"):
        engram.explore([[1, 0]])
    with pytest.raises(InputError, match="num_tokens of at most 200"):
        engram.explore(engram.on_sphere(0, 300, 2, 2))
