"""What every request must pass, and what every answer carries: this machine's own pages only."""

from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse

_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors {frames}"
)
_NOTEBOOKS = "'self' http://localhost:* http://127.0.0.1:*"


class Guard:
    """Refuses requests for other hosts or from other pages, and sets the usual headers.

    A page of another site may ask a browser to send requests here: its Origin tells. A name of another
    site may be made to point here: the Host tells.

    Args:
        app: What is guarded.
        framed: Whether a notebook of this machine may show the page in a frame.
    """

    def __init__(self, app: Any, framed: bool = False):
        self.app, self.framed = app, framed

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # nothing here speaks over a socket
            return

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._headers(scope["path"]))
            await send(message)

        fault = self._fault(scope)
        if fault is None:
            await self.app(scope, receive, with_headers)
        else:
            await JSONResponse({"error": fault}, 403)(scope, receive, with_headers)

    def _fault(self, scope: Any) -> str | None:
        port = scope["server"][1]
        hosts = {f"127.0.0.1:{port}", f"localhost:{port}"} | (
            {"127.0.0.1", "localhost"} if port == 80 else set()
        )
        headers = Headers(scope=scope)
        if headers.getlist("host") not in [[host] for host in hosts]:
            return "This page answers to 127.0.0.1 and localhost only."
        origins = headers.getlist("origin")
        if any(origin not in {f"http://{host}" for host in hosts} for origin in origins):
            return "Requests from other pages are not answered."
        site = headers.get("sec-fetch-site", "none")
        is_page = scope["path"] == "/" and headers.get("sec-fetch-dest") in ("document", "iframe")
        if site not in ("none", "same-origin") and not is_page:
            return "Requests from other pages are not answered."
        return None

    def _headers(self, path: str) -> dict[str, str]:
        found = {
            "Content-Security-Policy": _CSP.format(frames=_NOTEBOOKS if self.framed else "'none'"),
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
            "Cache-Control": "no-store" if path.startswith("/api/") else "no-cache",
        }
        return found if self.framed else found | {"X-Frame-Options": "DENY"}
