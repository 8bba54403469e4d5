// Asks the engine of this page, and the server whatever is beyond that: only the newest question matters, lost
// connections are restored.

import { Local } from './local.js';
import { setCatalogue } from './state.js';

const CLIENT = Array.from(crypto.getRandomValues(new Uint8Array(12)), (b) => b.toString(16).padStart(2, '0')).join('');
const PATIENCE = 150; // ms after which a newer question is sent though an older one is out: the server drops that

// No server, or one that answers differently: both mean that ours is away.
export const isAway = (error) => error instanceof TypeError || error instanceof SyntaxError;

export function decode(buffer) {
  const size = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
  const arrays = {};
  for (const [name, [shape, place]] of Object.entries(header.arrays)) {
    const count = shape.reduce((a, b) => a * b, 1);
    arrays[name] = Object.assign(new Float64Array(buffer, 4 + size + place, count), { shape });
  }
  return { header, arrays };
}

export class Server {
  // handlers: { answer(state, parts, header, arrays), refused(text), lost(), back(isNew), status(warming), waiting(bool), source(isLocal) }
  constructor(handlers) {
    this.handlers = handlers;
    this.wanted = { plane: 0, runs: 0 };
    this.got = { plane: 0, runs: 0 };
    this.onWay = {}; // by part: who asks for it, and for which question
    this.refused = { plane: -1, runs: -1 }; // asked for and refused: not sent again until something changes
    this.state = null;
    this.out = 0;
    this.isLost = false;
    this.boot = null;
    this.local = new Local();
    this.own = {};
    this.watch();
  }

  get isAlone() { return false; }

  // What controls need to know of what can be chosen; returns the presets.
  async begin() {
    for (;;) {
      try {
        setCatalogue(await (await fetch('/api/catalogue')).json());
        return await (await fetch('/api/presets')).json();
      } catch (error) {
        if (!isAway(error)) throw error;
        await new Promise((resolve) => { setTimeout(resolve, 1000); });
      }
    }
  }

  ask(state, parts) {
    this.state = state;
    for (const part of parts) this.wanted[part] += 1;
    this.send();
  }

  get missing() { return Object.keys(this.wanted).filter((part) => this.got[part] < this.wanted[part]); }

  // Nothing more to send: all is there, or what is missing was refused as it stands.
  get isIdle() { return this.missing.every((part) => this.wanted[part] === this.refused[part]); }

  // What is on its way is not sent again: the newer request would end the older one, and so on for ever.
  get isOnWay() { return this.missing.every((part) => this.onWay[part]?.asked === this.wanted[part]); }

  send() {
    const parts = this.missing;
    if (this.isIdle || (this.isLost && !this.local.worker)) return;
    if (this.out > 0) {
      const post = () => { this.timer = null; if (!this.isOnWay) this.post(this.missing); };
      if (!this.isOnWay && !this.timer && this.out < 2) this.timer = setTimeout(post, PATIENCE);
      return;
    }
    this.post(parts);
  }

  async post(parts) {
    if (!parts.length) return;
    const state = this.state, asked = { ...this.wanted };
    const slow = setTimeout(() => this.handlers.waiting(true), 400);
    const settle = () => { for (const part of parts) this.got[part] = Math.max(this.got[part], asked[part]); };
    const own = {};
    for (const part of parts) this.onWay[part] = { asked: asked[part], own };
    this.out += 1;
    let found = null, fault = null, near = null;
    try {
      near = await this.local.answer(parts, await this.whole(state));
      if (near) ({ found, fault } = near);
      else if (!this.isLost) ({ found, fault } = await this.compute(parts, state));
    } catch (error) {
      if (!isAway(error)) throw error;
      this.lose();
    } finally {
      clearTimeout(slow);
      this.out -= 1;
      for (const part of parts) if (this.onWay[part]?.own === own) delete this.onWay[part];
      if (!this.out) this.handlers.waiting(false);
    }
    const isNew = parts.some((part) => asked[part] > this.got[part]);
    if (found) settle();
    if (fault && !fault.isBusy) for (const part of parts) this.refused[part] = asked[part];
    if (fault?.isBusy) setTimeout(() => this.send(), 500);
    else if (near || !this.isLost) this.send(); // the next question goes out before this answer is drawn, so that both sides work at once
    if (found && isNew) { this.handlers.source(Boolean(near)); this.handlers.answer(state, parts, found.header, found.arrays); }
    if (fault && state === this.state) this.handlers.refused(fault.text);
  }

  // The answer for a state that is shown beside the page's own; a newer question may end it, then it is asked again.
  async once(parts, state) {
    for (;;) {
      const { found, fault } = await this.local.answer(parts, await this.whole(state)) ?? await this.compute(parts, state);
      if (found || fault) return { found, fault };
    }
  }

  // A state with all that the engine needs: a problem of one's own is fetched once.
  async whole(state) {
    const { kind, name } = state.problem;
    if (kind !== 'own') return state;
    this.own[name] ??= fetch(`/api/own/${encodeURIComponent(name)}`).then((answer) => (answer.ok ? answer.json() : null), () => null);
    return { ...state, problem: { kind, name, ...await this.own[name] } };
  }

  // The server's answer: what it found, what is wrong, or neither where a newer question is out.
  async compute(parts, state) {
    const answer = await fetch('/api/compute', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ client: CLIENT, parts, state }),
    });
    if (answer.status === 200) return { found: decode(await answer.arrayBuffer()), fault: null };
    return { found: null, fault: answer.status === 204 ? null : { text: (await answer.json()).error, isBusy: answer.status === 503 } };
  }

  // What may take long, asked for alone and under a name of its own, so that nothing waits for it.
  async later(part, state, more = {}) { // of pushes: { step, run }
    const near = await this.local.answer([part], await this.whole(state), more);
    if (near) return { found: near.found, fault: near.fault?.text ?? null };
    try {
      const answer = await fetch('/api/compute', {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ client: `${CLIENT}-${part}`, parts: [part], state, ...more }),
      });
      if (answer.status === 200) return { found: decode(await answer.arrayBuffer()) };
      return { fault: answer.status === 204 ? null : (await answer.json()).error };
    } catch (error) {
      if (!isAway(error)) throw error;
      this.lose();
      return { fault: null };
    }
  }

  async python(state) {
    const near = await this.local.answer(['python'], state);
    if (near?.found) return near.found.header.python;
    const away = (error) => { if (isAway(error)) this.lose(); throw new Error('The server does not answer; try again when it is back.'); };
    const answer = await fetch('/api/python', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ client: CLIENT, parts: ['runs'], state }),
    }).catch(away);
    if (!answer.ok) throw new Error((await answer.json()).error);
    return answer.text();
  }

  lose() {
    if (this.isLost) return;
    this.isLost = true;
    this.handlers.lost();
    if (!this.isAsking) this.watch();
  }

  // Asks how the server is, while it warms up or is away.
  async watch() {
    clearTimeout(this.watching);
    let again = 1000;
    this.isAsking = true;
    try {
      const answer = await fetch('/api/status');
      const status = await answer.json();
      if (!status.boot) throw new SyntaxError('another server answers here');
      const isNew = this.boot !== null && this.boot !== status.boot;
      this.boot = status.boot;
      if (this.isLost || isNew) {
        this.isLost = false;
        this.handlers.back(isNew);
        for (const part of Object.keys(this.wanted)) if (this.wanted[part]) this.wanted[part] += 1;
        this.send();
      }
      this.handlers.status(status.warming);
      if (status.warming.done >= status.warming.total) again = 5000;
    } catch (error) {
      if (!isAway(error)) throw error;
      this.lose();
    } finally {
      this.isAsking = false;
      this.watching = setTimeout(() => this.watch(), again);
    }
  }
}
