// The whole state of the page, and its form in the address.

export const METHODS = {
  gd: 'descent', flow: 'gradient flow', sgd: 'SGD', momentum: 'momentum 0.9', nesterov: 'Nesterov 0.9',
  adam: 'Adam', rmsprop: 'RMSprop', normalised: 'normalised', sign: 'sign',
};
export const DRAWS = {
  'fig4-39': 'Figures 4 and 5, seed 39 (N = 3, separable)', 'fig4-81': 'Figure 4, seed 81 (N = 3)', 'fig4-7': 'Figure 4, seed 7 (N = 30)',
  'fig4-9': 'Figures 4 and 5, seed 9 (N = 30)', 'fig4-sgd': 'Figure 4, SGD (N = 10)',
  'fig6-3': 'Figure 6, d = 3 (N = 5)', 'fig6-5': 'Figure 6, d = 5', 'fig6-10': 'Figure 6, d = 10',
};
const PROBLEMS = {
  two: { correlation: 0.95, p1: 0.75 },
  sphere: { tokens: 10, classes: 2, dim: 2, exponent: 1, seed: 0 },
  paper: { name: 'fig4-81' },
  table: { tokens: [] },
  own: { name: '' },
};
export const LIMITS = { runs: 4, changes: 4, steps: 20000 };

export const blank = () => ({
  preset: null,
  problem: { kind: 'two', ...PROBLEMS.two },
  runs: [{ method: 'gd', rate: 1 }],
  steps: 100,
  start: { a: 0, b: 0, scale: 0, seed: 0 },
  view: { x: 0, y: 0, half: 10, overlay: 'none' },
  show: { loss: 'log', axis: 'linear', focus: 0, cursor: null }, // no cursor: the last step
});

export const copy = (state) => structuredClone(state);

// A preset may leave out what is usual.
export function fromPreset(preset) {
  const usual = blank(), given = preset.state;
  return {
    preset: preset.id,
    problem: copy(given.problem),
    runs: copy(given.runs),
    steps: given.steps,
    start: { ...usual.start, ...given.start },
    view: { ...usual.view, ...given.view },
    show: { ...usual.show, ...given.show },
  };
}

export const problemOf = (kind) => ({ kind, ...structuredClone(PROBLEMS[kind]) });

// What the server computes from; the rest is the page's own business.
export function forServer(state) {
  return { problem: state.problem, runs: state.runs, steps: state.steps, start: state.start, view: state.view };
}

export function toHash(state) {
  const out = [], put = (name, value) => out.push(`${name}=${encodeURIComponent(value).replaceAll('%2C', ',').replaceAll('%3A', ':')}`);
  if (state.preset) put('preset', state.preset);
  put('problem', state.problem.kind);
  for (const [name, value] of Object.entries(state.problem)) {
    if (name === 'kind') continue;
    if (state.problem.kind === 'table') for (const token of value) put('token', [token.x, token.y, token.target, token.prob].join());
    else put(name === 'seed' ? 'draw' : name, value);
  }
  for (const run of state.runs) {
    const more = [`b${run.batch ?? 4}`, `s${run.seed ?? 0}`];
    const changes = (run.changes ?? []).map((change) => `${change.step}:${change.rate}`);
    put('run', [run.method, run.rate, ...(run.method === 'sgd' ? more : []), ...changes].join());
  }
  put('steps', state.steps);
  put('start', [state.start.a, state.start.b].join());
  if (state.start.scale) put('random', [state.start.scale, state.start.seed].join());
  put('view', [state.view.x, state.view.y, state.view.half].join());
  if (state.view.overlay !== 'none') put('overlay', state.view.overlay);
  put('show', [state.show.loss, state.show.axis, state.show.focus].join());
  if (state.show.cursor !== null) put('t', state.show.cursor);
  return '#' + out.join('&');
}

// Reads an address. What cannot be read is said, and the usual value is taken.
export function fromHash(hash, presets) {
  const faults = [], values = new Map();
  for (const pair of hash.replace(/^#/, '').split('&').filter(Boolean)) {
    const [name, ...rest] = pair.split('=');
    let value = rest.join('=');
    try { value = decodeURIComponent(value); } catch { faults.push(`${name}: cannot be read`); continue; }
    values.set(name, [...(values.get(name) ?? []), value]);
  }
  const one = (name) => values.get(name)?.[0];
  const preset = presets.find((each) => each.id === one('preset'));
  if (one('preset') !== undefined && !preset) faults.push(`preset: there is none called ${JSON.stringify(one('preset'))}`);
  const state = preset ? fromPreset(preset) : blank();
  const num = (name, text, usual) => {
    const value = Number(text);
    if (text === '' || text === undefined || !Number.isFinite(value)) { faults.push(`${name}: ${JSON.stringify(text ?? '')} is not a number`); return usual; }
    return value;
  };
  const index = (name, text, usual) => {
    const value = num(name, text, usual);
    if (value === null || (Number.isInteger(value) && value >= 0)) return value;
    faults.push(`${name}: ${text} is not a count`);
    return usual;
  };
  const nums = (name, count, usual) => {
    if (!values.has(name)) return usual;
    const parts = one(name).split(',');
    if (parts.length !== count) { faults.push(`${name}: needs ${count} numbers, got ${JSON.stringify(one(name))}`); return usual; }
    return parts.map((part, k) => num(name, part, usual[k]));
  };
  const kind = one('problem');
  if (kind !== undefined) {
    if (!Object.hasOwn(PROBLEMS, kind)) faults.push(`problem: ${JSON.stringify(kind)} is not known`);
    else if (kind === 'table') {
      const tokens = (values.get('token') ?? []).map((text) => {
        const [x, y, target, prob] = text.split(',').map((part) => num('token', part, 0));
        return { x, y: y ?? 0, target: target ?? 0, prob: prob ?? 0 };
      });
      state.problem = { kind, tokens };
    } else {
      const usual = state.problem.kind === kind ? state.problem : problemOf(kind);
      state.problem = { kind };
      for (const [name, value] of Object.entries(usual)) {
        if (name === 'kind') continue;
        const text = one(name === 'seed' ? 'draw' : name);
        state.problem[name] = text === undefined ? value : typeof value === 'number' ? num(name, text, value) : text;
      }
    }
  }
  if (values.get('run')?.length > LIMITS.runs) faults.push(`run: at most ${LIMITS.runs} are drawn, the others are left out`);
  if (values.has('run')) state.runs = values.get('run').slice(0, LIMITS.runs).map((text) => readRun(text, num, faults));
  if (values.has('steps')) state.steps = num('steps', one('steps'), state.steps);
  [state.start.a, state.start.b] = nums('start', 2, [state.start.a, state.start.b]);
  [state.start.scale, state.start.seed] = nums('random', 2, [state.start.scale, state.start.seed]);
  [state.view.x, state.view.y, state.view.half] = nums('view', 3, [state.view.x, state.view.y, state.view.half]);
  if (values.has('overlay')) state.view.overlay = one('overlay');
  if (values.has('show')) {
    const [loss, axis, focus] = one('show').split(',');
    state.show.loss = loss === 'linear' ? 'linear' : 'log';
    state.show.axis = axis === 'log' ? 'log' : 'linear';
    state.show.focus = index('show', focus, 0);
  }
  if (values.has('t')) state.show.cursor = index('t', one('t'), null);
  return { state, faults };
}

function readRun(text, num, faults) {
  const [method, rate, ...more] = text.split(',');
  const isKnown = Object.hasOwn(METHODS, method);
  if (!isKnown) faults.push(`run: ${JSON.stringify(method)} is not known`);
  const run = { method: isKnown ? method : 'gd', rate: num('run', rate, 1) };
  for (const part of more) {
    if (/^b\d+$/.test(part)) run.batch = Number(part.slice(1));
    else if (/^s\d+$/.test(part)) run.seed = Number(part.slice(1));
    else if (part.includes(':')) {
      const [step, then] = part.split(':');
      run.changes = [...(run.changes ?? []), { step: num('run', step, 1), rate: num('run', then, 1) }];
    } else faults.push(`run: ${JSON.stringify(part)} cannot be read`);
  }
  return run;
}
