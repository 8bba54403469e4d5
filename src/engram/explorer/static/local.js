// The engine of this page: what it can compute needs no server. `?by=server` in the address leaves all to that.

export class Local {
  constructor() {
    this.asked = new Map();
    this.count = 0;
    this.worker = null;
    if (new URLSearchParams(location.search).get('by') === 'server') return;
    try { this.worker = new Worker(new URL('./engine/worker.js', import.meta.url), { type: 'module' }); } catch { return; } // a frame may forbid it
    this.worker.onmessage = ({ data: { id, ...answer } }) => { this.asked.get(id)?.(answer); this.asked.delete(id); };
    this.worker.onerror = (event) => { // not there, or broken: the server computes everything
      if (event.filename) return; // a fault in one answer, which goes to the server
      this.worker = null;
      for (const resolve of this.asked.values()) resolve({ beyond: 'the engine of this page cannot be loaded.' });
    };
  }

  // { found } or { fault }, both null when a newer question has come; null if the question is for the server.
  async answer(parts, state, more = {}) {
    if (!this.worker) return null;
    const id = this.count += 1;
    const { header, arrays, error, beyond, isStale } = await new Promise((resolve) => {
      this.asked.set(id, resolve);
      this.worker.postMessage({ id, parts, state, ...more });
    });
    if (beyond) return null;
    if (isStale || error) return { found: null, fault: error ? { text: error } : null };
    for (const name of Object.keys(arrays)) { const [values, shape] = arrays[name]; arrays[name] = Object.assign(values, { shape }); }
    return { found: { header, arrays }, fault: null };
  }
}
