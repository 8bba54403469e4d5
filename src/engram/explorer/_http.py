"""HTTP for this machine's own pages only, and for clients that send whole requests."""

import asyncio
from typing import Any, ClassVar

import h11
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS = 30.0  # in which a connection must send a whole request
MOST_WAITING = 64  # connections without one
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

    A page of another site may make a browser send requests here: its Origin shows it. The name of another
    site may point here: the Host shows it.

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
        more = {"Cross-Origin-Resource-Policy": "cross-origin"} if _is_sign(scope) else {}

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(
                    self._headers | {"Cache-Control": cache} | more
                )
            await send(message)

        fault = _fault(scope)
        app = self.app if fault is None else JSONResponse({"error": fault}, 403)
        await app(scope, receive, with_headers)


def _is_sign(scope: Any) -> bool:
    """Whether this is the picture by which a notebook's page sees that the server can be reached."""
    return scope["path"].startswith("/here/")


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
    is_open = (
        _is_sign(scope)
        or scope["path"] == "/"
        and headers.get("sec-fetch-dest") in ("document", "iframe")
    )
    if is_elsewhere or (site not in ("none", "same-origin") and not is_open):
        return "Requests from other pages are not answered."
    return None


class Protocol(H11Protocol):
    """Closes connections that do not send a whole request: after some seconds, or when they are many.

    Otherwise a hundred connections that send nothing would keep everybody else out.
    """

    has_served = False
    _waiting: ClassVar[dict["Protocol", asyncio.TimerHandle]] = {}  # the oldest first

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._look()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.has_served = True
        self._look()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP, unless an answer has been sent; one that is being made has no reader."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _look(self) -> None:
        """Whether a whole request is here, or must come yet."""
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete and not cycle.more_body:
            self._forget()
        elif self not in self._waiting and not self.transport.is_closing():
            self._waiting[self] = self.loop.call_later(REQUEST_SECONDS, self._give_up)
            here = [each for each in self._waiting if each.connections is self.connections]
            if len(here) > MOST_WAITING:  # the oldest, of those that have asked for nothing yet
                min(here, key=lambda each: each.has_served)._give_up()

    def _forget(self) -> None:
        if (deadline := self._waiting.pop(self, None)) is not None:
            deadline.cancel()

    def _give_up(self) -> None:
        self._forget()
        if not self.transport.is_closing():
            self.transport.close()
