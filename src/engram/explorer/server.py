"""The explorer's server: routes, and where it listens. It answers on 127.0.0.1 only."""

import asyncio
import importlib
import logging
import secrets
import socket
import sys
import threading
import time
from importlib import resources
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

import engram
from engram._cache import use_cache
from engram._checks import InputError
from engram.explorer._export import for_engine
from engram.explorer._http import Guard, Protocol
from engram.explorer._jobs import Busy, Jobs, Stale, TooLong
from engram.problem import Problem

_log = logging.getLogger("engram.explorer")
MOST_BYTES = 32_768  # of a request
_BODY_SECONDS = 5.0
_SWITCH_SECONDS = 0.0005
_OWN_FAULT = "The server failed with an internal error; change something and try again"
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class Explorer:
    """The page's server.

    Args:
        port: Where to listen on 127.0.0.1; a free one by default.
        framed: Whether notebooks of this machine may show the page in a frame.
        warm: Whether to compile for the common shapes at once.
    """

    def __init__(self, port: int = 0, *, framed: bool = False, warm: bool = True):
        self.own: dict[str, Any] = {}  # problems of Python sessions, and runs from files
        self.boot = secrets.token_hex(8)
        self.warming: dict[str, Any] = {"done": 0, "total": int(warm), "now": "loading JAX"}
        self.jobs = Jobs()
        self._socket = _listen(port)
        self.port: int = self._socket.getsockname()[1]
        app = Guard(make_app(self), framed)
        config = uvicorn.Config(
            app, log_config=None, access_log=False, server_header=False, date_header=False,
            limit_concurrency=128, timeout_keep_alive=30, timeout_graceful_shutdown=1,
            ws="none", lifespan="off", http=Protocol,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(warm)), daemon=True, name="engram-explorer"
        )

    async def _serve(self, warm: bool) -> None:
        warming = asyncio.create_task(self._warm()) if warm else None
        await self._server.serve([self._socket])
        if warming is not None:
            warming.cancel()

    async def _warm(self) -> None:
        """Compile for the common shapes, one after the other, so that the first drag is quick too."""
        payloads, requests = await _load("payloads"), await _load("_requests")
        states = (await _load("_presets")).COMMON_STATES
        for done, (name, state) in enumerate(states):
            self.warming = {"done": done, "total": len(states), "now": name}
            compute = lambda job, state=state: payloads.compute(requests.read_state(state), {}, job)
            try:
                await self.jobs.answer("warming", compute)
            except Stale:
                return
            except Exception:  # it will be met again, and reported, when it is asked for
                _log.exception("%s could not be computed", name)
        self.warming = {"done": len(states), "total": len(states), "now": None}

    @property
    def url(self) -> str:
        """The page's address."""
        return f"http://127.0.0.1:{self.port}/"

    def show(self, shown: Any) -> str:
        """Keep a problem, or the run of a file; returns the address of its page."""
        name = secrets.token_hex(4)
        self.own[name] = shown
        kind = "own" if isinstance(shown, Problem) else "replay"
        return f"{self.url}#problem={kind}&name={name}"

    def start(self) -> "Explorer":
        """Serve in the background; returns when the page can be opened."""
        use_cache()
        # Threads that compile would otherwise hold Python for 5 ms each time that an answer needs it.
        self._switched_every = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_SECONDS)
        self._thread.start()
        while not self._server.started:
            if not self._thread.is_alive():
                raise InputError("the explorer's server did not start.")
            time.sleep(0.01)
        return self

    def wait(self) -> None:
        """Until it is stopped, or Ctrl-C."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def stop(self) -> None:
        """End the server and what is at work."""
        self.jobs.close()
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(5)
            sys.setswitchinterval(self._switched_every)
        self._socket.close()


def _listen(port: int) -> socket.socket:
    # Named as TCP, for only then does asyncio switch off Nagle's delay, which costs 40 ms an answer.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        listener.close()
        raise InputError(
            f"`port` must be free on 127.0.0.1, got {port} ({error.strerror}). Choose another, or 0 for a "
            "free one."
        ) from None
    return listener


def make_app(explorer: Explorer) -> Starlette:
    """The routes."""
    folder = resources.files("engram.explorer") / "static"
    found = {file.name: file for file in folder.iterdir()}
    found |= {f"engine/{file.name}": file for file in found["engine"].iterdir()}
    files = {name: file for name, file in found.items() if name.endswith(tuple(_KINDS))}

    async def page(request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        if name not in files:  # names are looked up, never joined to a path
            return JSONResponse({"error": "There is no such file."}, 404)
        suffix = name[name.rindex(".") :]
        return Response(files[name].read_bytes(), media_type=_KINDS[suffix])

    async def here(request: Request) -> Response:
        if request.path_params["boot"] != explorer.boot:
            return JSONResponse({"error": "Another explorer is here by now."}, 404)
        return Response(files["icon.svg"].read_bytes(), media_type=_KINDS[".svg"])

    async def status(request: Request) -> Response:
        about = {"engram": engram.__version__, "boot": explorer.boot}
        return JSONResponse(about | {"warming": explorer.warming})

    async def presets(request: Request) -> Response:
        return JSONResponse((await _load("_presets")).PRESETS)

    async def catalogue(request: Request) -> Response:
        return JSONResponse((await _load("_controls")).catalogue())

    async def own(request: Request) -> Response:
        part = (await _load("_requests")).Own.model_construct(name=request.path_params["name"])
        problem = (await _load("_simulations")).make_problem(part, explorer.own)
        return JSONResponse(for_engine(problem))

    async def compute(request: Request) -> Response:
        wanted, payloads = await _read(request), await _load("payloads")
        work = lambda job: payloads.compute(wanted, explorer.own, job)
        answer = await _while_there(request, explorer.jobs.answer(wanted.client, work))
        return Response(answer, media_type="application/octet-stream")

    async def python(request: Request) -> Response:
        wanted, simulations = await _read(request), await _load("_simulations")
        work = lambda job: simulations.python_lines(wanted.state, explorer.own)
        answer = explorer.jobs.answer(f"{wanted.client}/python", work)
        return PlainTextResponse(await _while_there(request, answer))

    return Starlette(
        routes=[
            Route("/", page),
            Route("/static/{name:path}", page),
            Route("/here/{boot}", here),
            Route("/api/status", status),
            Route("/api/presets", presets),
            Route("/api/catalogue", catalogue),
            Route("/api/own/{name}", own),
            Route("/api/compute", compute, methods=["POST"]),
            Route("/api/python", python, methods=["POST"]),
        ],
        exception_handlers={
            HTTPException: _refuse,
            InputError: _answer(422),
            Stale: _nothing,  # not a fault: a newer request has come
            Busy: _answer(503, "The server is busy with other pages; try again."),
            TooLong: _answer(
                422, "This takes too long to compute: choose fewer steps, tokens or runs."
            ),
            Exception: _answer(500, f"{_OWN_FAULT}."),
        },
    )


def _answer(code: int, text: str | None = None) -> Any:
    async def handler(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": text or str(error)}, code)

    return handler


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": f"{error.detail}."}, error.status_code, error.headers)


async def _nothing(request: Request, error: Exception) -> Response:
    return Response(status_code=204)


async def _read(request: Request) -> Any:
    """The request's body, of bounded size and time, as a checked state."""
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise InputError("the request must be JSON (content-type: application/json).")
    body = b""
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MOST_BYTES:
                    raise InputError(f"the request must have at most {MOST_BYTES} bytes.")
    except ClientDisconnect:
        raise Stale from None
    except TimeoutError:
        raise InputError(f"the request must come within {_BODY_SECONDS:g} seconds.") from None
    return (await _load("_requests")).read_request(body)


_modules: dict[str, Any] = {}


async def _load(name: str) -> Any:
    """A module that may need JAX, which takes seconds the first time."""
    if name not in _modules:
        path = f"engram.explorer.{name}"
        _modules[name] = await asyncio.to_thread(importlib.import_module, path)
    return _modules[name]


async def _while_there(request: Request, answer: Any) -> Any:
    """An answer, unless the one who asked goes away first."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    asked, left = asyncio.ensure_future(answer), asyncio.ensure_future(gone())
    try:
        await asyncio.wait({asked, left}, return_when=asyncio.FIRST_COMPLETED)
        if not asked.done():
            raise Stale
        return asked.result()
    except (InputError, Stale, Busy, TooLong):
        raise
    except Exception as error:
        _log.exception("a request could not be answered")
        raise HTTPException(500, _OWN_FAULT) from error
    finally:
        asked.cancel()
        left.cancel()
