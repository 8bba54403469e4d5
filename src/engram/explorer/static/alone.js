// In place of the server where there is none, in an exported page: its own engine, and what the page carries.

import { answer, can, Beyond, Refused } from './engine/index.js';
import { GIVEN } from './given.js';
import { pythonLines } from './python.js';
import { Server as Asking } from './server.js';
import { blank, catalogue, setCatalogue, tableOf } from './state.js';

const BEYOND = 'This page computes by itself and cannot do that. With engram installed, `engram explore` can.';

export class Server extends Asking {
  get isAlone() { return true; }

  async begin() {
    setCatalogue(GIVEN.catalogue);
    offerWhatIsKnown();
    this.handlers.source(true);
    if (GIVEN.server) goTo(GIVEN.server);
    return GIVEN.presets;
  }

  // Problems of one's own come with the page.
  async whole(state) {
    const { kind, name } = state.problem;
    return kind === 'own' ? { ...state, problem: { kind, ...GIVEN.problems?.[name] } } : state;
  }

  watch() {}

  // What the worker cannot do, or all of it where the browser allows no worker.
  async compute(parts, state, more = {}) {
    try { return { found: answer({ parts, state: await this.whole(state), ...more }), fault: null }; } catch (error) {
      if (error instanceof Refused) return { found: null, fault: { text: error.message } };
      if (error instanceof Beyond) return { found: null, fault: { text: BEYOND } };
      throw error;
    }
  }

  async later(part, state, more = {}) {
    const { found, fault } = await this.local.answer([part], await this.whole(state), more) ?? await this.compute([part], state, more);
    return { found, fault: fault?.text ?? null };
  }

  async python(state) {
    const whole = await this.whole(state);
    if (!can(whole)) throw new Error(BEYOND);
    return pythonLines(whole);
  }
}

// A notebook's page is replaced by the library's own, if the server is on this machine: it can do more.
function goTo({ here, page }) {
  const picture = new Image();
  picture.onload = () => location.replace(page);
  picture.src = here;
}

// The controls offer what the engine knows: names and fields with which it could compute.
function offerWhatIsKnown() {
  for (const [kind, put] of Object.entries(PLACES)) {
    for (const [name, { fields }] of Object.entries(catalogue[kind])) {
      const table = tableOf(kind, name), isKnown = (given) => can(put(blank(), given));
      if (!isKnown(table)) { delete catalogue[kind][name]; continue; }
      for (const [field, about] of Object.entries(fields)) {
        if (!isKnown({ ...table, [field]: anotherValue(about) })) delete fields[field];
      }
    }
  }
}

const inRun = (part) => (state, { kind, ...table }) => ({ ...state, runs: [{ kind: 'descent', optimizer: 'plain', learning_rate: 1, [part]: kind, ...table }] });
const PLACES = {
  problem: (state, problem) => ({ ...state, problem }),
  system: (state, system) => ({ ...state, system }),
  dynamics: (state, run) => ({ ...state, runs: [run] }),
  optimizer: inRun('optimizer'),
  sampling: inRun('sampling'),
  observable: (state, item) => ({ ...state, record: [item] }),
  event: (state, item) => ({ ...state, events: [item] }),
};

const anotherValue = ({ form, usual, low, high, choices }) => (form === 'truth' ? !usual : usual ?? choices[0] ?? low ?? high ?? 1);
