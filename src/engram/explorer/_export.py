"""export: the explorer as one file that computes in the browser, without a server and without a network.

Browsers refuse modules and their workers from `file://`. So all modules become functions in one classic
script, and a worker begins with the text of that same script.
"""

import base64
import graphlib
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

import engram
from engram._checks import InputError
from engram._files import written_whole
from engram.problem import Problem

OWN = "00000000"  # the name of the problem that a page carries
_ENTRY, _WORKER = "main.js", "engine/worker.js"
_INSTEAD = {"server.js": "alone.js"}  # for all but `alone.js` itself
_CSP = (
    "default-src 'none'; script-src '{script}'; worker-src blob:; style-src '{style}'; "
    "img-src data: blob:{here}; base-uri 'none'; form-action 'none'"
)
_IMPORT = re.compile(r"^import (?:\{([^}]*)\}|\* as (\w+)) from '([^']+)';$", re.M)
_EXPORT = re.compile(r"^export (?=(?:const|class|(?:async )?function\*?) ?(\w+))", re.M)
_EXPORTS = re.compile(r"^export \{([^}]*)\};$", re.M)
_WORKER_URL = "new Worker(new URL('./engine/worker.js', import.meta.url), { type: 'module' })"
_START = """\
const own = globalThis.document?.currentScript?.textContent, made = {{}};
const take = (name) => (made[name] ??= modules[name]());
const startWorker = () => new Worker(URL.createObjectURL(new Blob([own], {{ type: 'text/javascript' }})));
take(globalThis.document ? '{entry}' : '{worker}');
"""


def export(
    path: str | os.PathLike[str], problem: Problem | None = None, *, address: str = ""
) -> Path:
    """Write the explorer as one page that needs no server, no Python and no network.

    The page computes in the browser what its own engine can: problems of up to 50 tokens, 10 classes and
    32 dimensions, all presets, and every built-in optimizer. It opens from a disk, an e-mail or a web server.

    Args:
        path: The file to write.
        problem: What the page shows first, of at most 200 tokens, 50 classes and 64 dimensions; by default
            two tokens.
        address: Other settings to begin with: the part of a page's link from `#` on.

    Returns:
        The path of the file.
    """
    target = Path(path)
    text = page_text(address) if problem is None else own_page(problem, address)
    with written_whole(target) as partial:
        partial.write_text(text, encoding="utf-8")
    return target


def own_page(problem: Problem, address: str = "", **more: Any) -> str:
    """The page that begins with a problem of the user's own."""
    from engram.explorer._simulations import own_problem

    problem = own_problem("`problem`", problem)
    begin = f"#problem=own&name={OWN}&{address.removeprefix('#')}".rstrip("&")
    return page_text(begin, problems={OWN: for_engine(problem)}, **more)


def for_engine(problem: Problem) -> dict[str, Any]:
    """A problem as the page's engine takes it."""
    problem = problem.astype("float64")
    flat = {name: np.ravel(getattr(problem, name)).tolist() for name in ("inputs", "outputs")}
    sizes = {"d": problem.dim, "k": problem.output_dim}
    names = {"names": problem.names, "class_names": problem.class_names}
    return {
        **flat, "probs": problem.probs.tolist(), "labels": problem.labels.tolist(), **sizes,
        **{name: list(values) for name, values in names.items() if values is not None},
    }  # fmt: skip


def page_text(address: str = "", **more: Any) -> str:
    """The page; `more` is handed to it with the presets.

    Args:
        address: What it shows first.
        more: Problems by their names; and a `server`, where there is one: the address of its `page`,
            which takes the place of this one if the browser can load the picture `here`.
    """
    from engram.explorer._controls import catalogue
    from engram.explorer._presets import PRESETS

    if address and not address.startswith("#"):
        raise InputError(f"`address` must begin with '#', got {address!r}. Copy it from a link.")
    files = dict(_files())
    given = {"engram": engram.__version__, "catalogue": catalogue(), "presets": PRESETS}
    return _inlined(files, given | {"address": address} | more)


def _files() -> Iterator[tuple[str, str]]:
    """The page's own files by their names."""
    folder = resources.files("engram.explorer") / "static"
    for prefix, each in (("", folder), ("engine/", folder / "engine")):
        for file in sorted(each.iterdir(), key=lambda file: file.name):
            if file.is_file() and file.name.endswith((".html", ".css", ".js", ".svg")):
                yield prefix + file.name, file.read_text(encoding="utf-8")


def _inlined(files: Mapping[str, str], given: Mapping[str, Any]) -> str:
    """The page with its style, its script, its icon and its data within."""
    style, script = files["explorer.css"], f"\n{bundle(files)}"
    if "</" in style:
        raise ValueError("the style sheet must not contain '</'.")
    here = f" {given['server']['here']}" if "server" in given else ""
    csp = _CSP.format(script=_digest(script), style=_digest(style), here=here)
    icon = base64.b64encode(files["icon.svg"].encode()).decode()
    data = json.dumps(given, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    page = files["index.html"]
    charset = '<meta charset="utf-8">'
    policy = f'<meta http-equiv="Content-Security-Policy" content="{csp}">'
    carried = f'<script type="application/json" id="given">{data}</script>'
    for old, new in (
        (charset, f"{charset}\n{policy}"),
        ("/static/icon.svg", f"data:image/svg+xml;base64,{icon}"),
        ('<link rel="stylesheet" href="/static/explorer.css">', f"<style>{style}</style>"),
        ('<script type="module" src="/static/main.js"></script>\n', ""),
        ("</body>", f"{carried}\n<script>{script}</script>\n</body>"),
    ):
        page = _once(page, old, new)
    return page


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _once(text: str, old: str, new: str) -> str:
    if text.count(old) != 1:
        raise ValueError(f"the page must contain {old!r} once, got {text.count(old)} times.")
    return text.replace(old, new)


def bundle(files: Mapping[str, str]) -> str:
    """All modules that the page and its worker use as one script without imports."""
    made: dict[str, str] = {}
    uses: dict[str, list[str]] = {}
    waiting = [_ENTRY, _WORKER]
    while waiting:
        name = waiting.pop()
        if name not in made:
            made[name], uses[name] = _as_function(name, files[name])
            waiting += uses[name]
    order = graphlib.TopologicalSorter(
        uses
    ).static_order()  # raises where modules import each other
    modules = "".join(f"'{name}': () => {{\n{made[name]}}},\n" for name in order)
    start = _START.format(entry=_ENTRY, worker=_WORKER)
    script = f"'use strict';\n(() => {{\nconst modules = {{\n{modules}}};\n{start}}})();\n"
    # What would end the script is written otherwise; strings, patterns and comments stay what they are.
    return re.sub(r"<(?=/script|!--)", r"\\x3c", script, flags=re.I)


def _as_function(name: str, text: str) -> tuple[str, list[str]]:
    """A module as the body of a function that returns what it exports; and the modules that it uses."""
    folder, exported, used = name.rpartition("/")[0], [], []

    def take(found: re.Match[str]) -> str:
        names, whole, where = found.groups()
        path = os.path.normpath(os.path.join(folder, where)).replace(os.sep, "/")
        path = path if name in _INSTEAD.values() else _INSTEAD.get(path, path)
        used.append(path)
        target = whole or "{" + names.replace(" as ", ": ") + "}"
        return f"const {target} = take('{path}');"

    def note(found: re.Match[str]) -> str:
        exported.append(found[1])
        return ""

    def note_all(found: re.Match[str]) -> str:
        exported.extend(part.strip() for part in found[1].split(",") if part.strip())
        return ""

    if name == "local.js":
        text = _once(text, _WORKER_URL, "startWorker()")
    text = _EXPORTS.sub(note_all, _EXPORT.sub(note, _IMPORT.sub(take, text)))
    if left := re.search(r"^(?:import|export)\b.*|\bimport(?:\.meta|\().*", text, re.M):
        raise ValueError(f"{name} cannot be inlined: {left[0]!r} is written in another form.")
    return f"{text}return {{ {', '.join(exported)} }};\n", used
