"""HTTP for this machine's own pages only, and for clients that send whole requests."""

import asyncio
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 10.0
_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors {frames}"
)
_NOTEBOOKS = "'self' http://localhost:* http://127.0.0.1:*"
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class Guard:
    """Refuses requests for other hosts or from other pages, and sets the usual headers.

    A page of another site may ask a browser to send requests here: its Origin tells. A name of another
    site may be made to point here: the Host tells.

    Args:
        app: What is guarded.
        framed: Whether a notebook of this machine may show the page in a frame.
    """

    def __init__(self, app: Any, framed: bool = False):
        self.app = app
        self._headers = _HEADERS | {
            "Content-Security-Policy": _CSP.format(frames=_NOTEBOOKS if framed else "'none'")
        }
        if not framed:
            self._headers["X-Frame-Options"] = "DENY"

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        cache = "no-store" if scope["path"].startswith("/api/") else "no-cache"

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._headers | {"Cache-Control": cache})
            await send(message)

        fault = _fault(scope)
        app = self.app if fault is None else JSONResponse({"error": fault}, 403)
        await app(scope, receive, with_headers)


def _fault(scope: Any) -> str | None:
    """Why a request is not answered, if it is not."""
    port = scope["server"][1]
    hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
    if port == 80:
        hosts |= {"127.0.0.1", "localhost"}
    headers = Headers(scope=scope)
    if headers.getlist("host") not in [[host] for host in hosts]:
        return "This page answers to 127.0.0.1 and localhost only."
    is_elsewhere = any(
        origin not in {f"http://{host}" for host in hosts} for origin in headers.getlist("origin")
    )
    site = headers.get("sec-fetch-site", "none")
    is_page = scope["path"] == "/" and headers.get("sec-fetch-dest") in ("document", "iframe")
    if is_elsewhere or (site not in ("none", "same-origin") and not is_page):
        return "Requests from other pages are not answered."
    return None


class Protocol(H11Protocol):
    """Closes a connection that has not sent the whole of a request's headers in time.

    Otherwise a hundred connections that send nothing would keep everybody else out for ever.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._wait()
        else:
            self._stop()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self.transport.close()
