"""What is not HTTP is refused, and nothing of it is an error of the server."""

import logging
import socket

import httpx
import pytest


@pytest.mark.parametrize("kind", ["text/plain", "application/json"], ids=["at once", "in full"])
@pytest.mark.parametrize("waits", [False, True], ids=["together", "later"])
def test_a_body_that_breaks_the_rules_is_not_an_error(explorer, caplog, kind, waits):
    head = (
        f"POST /api/compute HTTP/1.1\r\nHost: 127.0.0.1:{explorer.port}\r\nContent-Type: {kind}\r\n"
        "Transfer-Encoding: chunked\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", explorer.port), timeout=10) as raw:
        raw.sendall(head.encode() + (b"1\r\n{\r\n" if waits else b"zz\r\n"))
        if waits and kind == "text/plain":
            assert raw.recv(65536).startswith(b"HTTP/1.1 422")
        raw.sendall(b"zz\r\n")
        said = b""
        try:
            while more := raw.recv(65536):
                said += more
        except ConnectionError:
            pass  # closed while we were sending
        assert said.count(b"HTTP/1.1") <= 1
    assert httpx.get(explorer.url, trust_env=False).status_code == 200
    assert all(each.levelno <= logging.WARNING for each in caplog.records), caplog.text
