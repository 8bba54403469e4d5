"""How the page asks: what is on its way is not sent again, so that long answers come at all."""

import json
import subprocess
from importlib import resources
from pathlib import Path

import pytest
from node_engine import NODE

pytestmark = pytest.mark.skipif(NODE is None, reason="no node here, which runs the page's code")

STATIC = Path(str(resources.files("engram.explorer") / "static"))
SCRIPT = """
// Clocks that go on by hand, and a server that answers only the newest question, when it is let.
const timers = [], seen = [], drawn = [], out = [];
globalThis.setTimeout = (work) => timers.push(work);
globalThis.clearTimeout = (id) => { timers[id - 1] = null; };
globalThis.location = { search: '?by=server' };
const reply = (status, text) => ({ status, ok: true, json: async () => ({}),
  arrayBuffer: async () => {
    const bytes = new TextEncoder().encode(text), all = new Uint8Array(4 + bytes.length);
    new DataView(all.buffer).setUint32(0, bytes.length, true); all.set(bytes, 4); return all.buffer; } });
globalThis.fetch = (path, { body } = {}) => new Promise((answer) => {
  if (path !== '/api/compute') return;
  out.at(-1)?.(reply(204));
  seen.push(JSON.parse(body).parts);
  out.push(answer);
});
const soon = () => new Promise((next) => setImmediate(next));
const later = async () => { for (const work of timers.splice(0)) work?.(); await soon(); };
const { Server } = await import('%(static)s/server.js');
const draw = (state) => drawn.push(state.n);
const handlers = new Proxy({}, { get: (_, name) => (name === 'answer' ? draw : () => {}) });
const server = new Server(handlers);
const ask = async (n, parts) => { server.ask({ n, problem: {} }, parts); await soon(); };
await ask(1, ['plane', 'runs']);
await ask(2, ['runs']);
for (let k = 0; k < 20; k++) await later(); // a long computation
const before = seen.length;
out.at(-1)(reply(200, '{"arrays":{}}'));
await soon(); await soon();
const first = [...drawn];
await ask(3, ['runs']);
out.at(-1)(reply(200, '{"arrays":{}}'));
await soon(); await soon();
console.log(JSON.stringify({ seen, before, first, drawn, isIdle: server.isIdle }));
process.exit(0);
"""


def test_a_long_answer_is_not_asked_for_again():
    script = SCRIPT % {"static": STATIC.as_uri()}
    done = subprocess.run(
        [str(NODE), "--input-type=module", "-e", script],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["seen"] == [["plane", "runs"], ["plane", "runs"], ["runs"]]
    assert found["before"] == 2
    assert found["first"] == [2]
    assert found["drawn"] == [2, 3]
    assert found["isIdle"]
