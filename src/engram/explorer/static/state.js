// The whole state of the page, and its form in the address.

export const DRAWS = {
  'fig4-39': 'Figures 4 and 5, seed 39 (N = 3, separable)', 'fig4-81': 'Figure 4, seed 81 (N = 3)', 'fig4-7': 'Figure 4, seed 7 (N = 30)',
  'fig4-9': 'Figures 4 and 5, seed 9 (N = 30)', 'fig4-sgd': 'Figure 4, SGD (N = 10)',
  'fig6-3': 'Figure 6, d = 3 (N = 5)', 'fig6-5': 'Figure 6, d = 5', 'fig6-10': 'Figure 6, d = 10',
};
const WRITTEN = { paper: { name: 'fig4-81' }, table: { tokens: [] }, own: { name: '' }, replay: { name: '' } }; // problems that are of no family
export const LIMITS = { runs: 4, changes: 4, extra: 4, steps: 20000, rates: [1e-6, 1e6] };

// What the server can make: { kind: { name: { help, is_own, parts, fields } } }.
export const catalogue = {};
export function setCatalogue(received) { Object.assign(catalogue, received); }

const about = (kind, name) => (Object.hasOwn(catalogue[kind], name) ? catalogue[kind][name] : null);
const isWritten = (kind, name) => kind === 'problem' && Object.hasOwn(WRITTEN, name);

// The parts that a table chooses, and all the fields that it may then have.
export const partsOf = (kind, table) => about(kind, table.kind)?.parts ?? [];
export function fieldsOf(kind, table) {
  const fields = { ...about(kind, table.kind)?.fields };
  if (table.sampling) delete fields.batch_size; // it is the sampling's, if that has one
  return Object.assign(fields, ...partsOf(kind, table).map((part) => (table[part] ? about(part, table[part])?.fields : null)));
}

// A table with the usual values of what must be given, or with those of another that has them.
export function tableOf(kind, name, from = {}) {
  if (isWritten(kind, name)) return { kind: name, ...structuredClone(WRITTEN[name]) };
  const table = { kind: name };
  if (partsOf(kind, table).includes('optimizer')) table.optimizer = Object.keys(catalogue.optimizer)[0];
  return complete(kind, table, from);
}

export function complete(kind, table, from = {}) {
  for (const [field, { is_required: isRequired, usual }] of Object.entries(fieldsOf(kind, table))) {
    if (isRequired && !(field in table)) table[field] = from[field] ?? usual;
  }
  return table;
}

export const blank = () => ({
  preset: null,
  problem: tableOf('problem', 'two'),
  system: { kind: 'memory' },
  runs: [{ kind: 'gd', learning_rate: 1 }],
  steps: 100,
  start: { a: 0, b: 0, scale: 0, seed: 0 },
  view: { x: 0, y: 0, half: 10, overlay: 'none' },
  record: [],
  events: [],
  show: { loss: 'log', axis: 'linear', focus: 0, follow: null, cursor: null, pushes: null }, // no cursor: the last step; no word on pushes: where there is no preset of them
});

export const isReplay = ({ problem }) => problem.kind === 'replay';
export const isPlain = ({ system }) => system.kind === 'memory' && !system.layer_norm;

export const copy = (state) => structuredClone(state);

// A preset may leave out what is usual.
export function fromPreset(preset) {
  const usual = blank(), given = copy(preset.state), parts = ['start', 'view', 'show'];
  return { ...usual, ...given, preset: preset.id, ...Object.fromEntries(parts.map((part) => [part, { ...usual[part], ...given[part] }])) };
}

// What the server computes from; the rest is the page's own.
export function forServer({ problem, system, runs, steps, start, view, record, events }) {
  if (isReplay({ problem })) return { problem, runs: [{ kind: 'gd', learning_rate: 1 }], steps: 1 }; // the file has all of it
  return { problem, system, runs, steps, start, view, record, events };
}

// A table in the address: its name, then its fields; as JSON where they are not plain words and numbers.
function pack({ kind, changes = [], ...fields }) {
  const isShort = Object.values(fields).every((value) => ['number', 'boolean'].includes(typeof value) || /^(?!(true|false)$)[A-Za-z_][\w.-]*$/.test(value));
  if (!isShort) return JSON.stringify({ kind, ...fields, ...(changes.length ? { changes } : {}) });
  return [kind, ...Object.entries(fields).map(([name, value]) => `${name}=${value}`), ...changes.map(({ step, rate }) => `${step}:${rate}`)].join();
}

export function toHash(state) {
  const plain = { '%2C': ',', '%3A': ':', '%3D': '=' }, out = [];
  const put = (name, value) => out.push(`${name}=${encodeURIComponent(value).replace(/%2C|%3A|%3D/g, (code) => plain[code])}`);
  if (state.preset) put('preset', state.preset);
  if (state.problem.kind === 'table') {
    put('problem', 'table');
    for (const token of state.problem.tokens) put('token', [token.x, token.y, token.target, token.prob].join());
  } else put('problem', pack(state.problem));
  if (pack(state.system) !== 'memory') put('system', pack(state.system));
  for (const run of state.runs) put('run', pack(run));
  for (const item of state.record) put('record', pack(item));
  for (const item of state.events) put('event', pack(item));
  put('steps', state.steps);
  put('start', [state.start.a, state.start.b].join());
  if (state.start.scale) put('random', [state.start.scale, state.start.seed].join());
  put('view', [state.view.x, state.view.y, state.view.half].join());
  if (state.view.overlay !== 'none') put('overlay', state.view.overlay);
  put('show', [state.show.loss, state.show.axis, state.show.focus].join());
  if (state.show.follow !== null) put('follow', state.show.follow);
  if (state.show.pushes !== null) put('pushes', state.show.pushes ? 'shown' : 'hidden');
  if (state.show.cursor !== null) put('t', state.show.cursor);
  return '#' + out.join('&');
}

// Reads an address. What cannot be read is reported, and the default is used.
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
  if (one('preset') !== undefined && !preset) faults.push(`preset: there is no preset called ${JSON.stringify(one('preset'))}`);
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
  if (values.has('problem')) state.problem = readProblem(values, state.problem, num, faults);
  if (values.has('system')) state.system = unpack(one('system'), 'system', 'system', faults) ?? state.system;
  const many = (name, kind, most) => {
    const texts = values.get(name);
    if (texts.length > most) faults.push(`${name}: at most ${most} can be drawn; the others are left out`);
    return texts.slice(0, most).map((text) => unpack(text, kind, name, faults));
  };
  if (values.has('run')) state.runs = many('run', 'dynamics', LIMITS.runs).map((run) => run ?? tableOf('dynamics', 'gd'));
  if (values.has('record')) state.record = many('record', 'observable', LIMITS.extra).filter(Boolean);
  if (values.has('event')) state.events = many('event', 'event', LIMITS.extra).filter(Boolean);
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
  if (values.has('follow')) state.show.follow = index('follow', one('follow'), null);
  if (values.has('pushes')) state.show.pushes = one('pushes') === 'shown';
  if (values.has('t')) state.show.cursor = index('t', one('t'), null);
  return { state, faults };
}

// Links from before have the fields of a problem beside it, and other names for some of them.
function readProblem(values, before, num, faults) {
  const text = values.get('problem')[0], old = { num_tokens: 'tokens', num_classes: 'classes', seed: 'draw' };
  if (text === 'table') {
    const tokens = (values.get('token') ?? []).map((token) => {
      const [x, y, target, prob] = token.split(',').map((part) => num('token', part, 0));
      return { x, y: y ?? 0, target: target ?? 0, prob: prob ?? 0 };
    });
    return { kind: 'table', tokens };
  }
  const table = unpack(text, 'problem', 'problem', faults);
  if (!table || /[,{]/.test(text)) return table ?? before;
  if (before.kind === table.kind) Object.assign(table, before);
  for (const name of Object.keys(isWritten('problem', text) ? WRITTEN[text] : fieldsOf('problem', table))) {
    const given = (values.get(name) ?? values.get(old[name]))?.[0];
    if (given !== undefined) table[name] = isWritten('problem', text) ? given : readValue('problem', table, name, plainValue(given), name, faults);
  }
  return table;
}

const plainValue = (text) => (text !== '' && Number.isFinite(Number(text)) ? Number(text) : text === 'true' ? true : text === 'false' ? false : text);

// A value that a control can show; the server knows the rest.
function readValue(kind, table, name, value, where, faults) {
  const field = fieldsOf(kind, table)[name];
  if (!['number', 'whole'].includes(field?.form) || typeof value === 'number' || (field.takes_list && typeof value === 'object')) return value;
  faults.push(`${where}: ${JSON.stringify(value)} is not a number`);
  return field.usual;
}

const isChanges = (value) => Array.isArray(value) && value.every((change) => Number.isFinite(change?.step) && Number.isFinite(change.rate));

function unpack(text, kind, where, faults) {
  let given = null;
  try { given = text.startsWith('{') ? JSON.parse(text) : split(text, where, faults); } catch { /* told below */ }
  if (typeof given?.kind !== 'string' || !(about(kind, given.kind) || isWritten(kind, given.kind))) {
    faults.push(`${where}: ${JSON.stringify(given?.kind ?? text)} is not known`);
    return null;
  }
  const table = { kind: given.kind }, own = kind === 'dynamics' ? ['seed', 'changes'] : [];
  for (const part of partsOf(kind, table)) if (typeof given[part] === 'string') table[part] = given[part];
  const known = isWritten(kind, table.kind) ? Object.keys(WRITTEN[table.kind]) : Object.keys(fieldsOf(kind, table));
  for (const [name, value] of Object.entries(given)) {
    if (name === 'kind' || name in table) continue;
    if (name === 'changes' && !isChanges(value)) faults.push(`${where}: its changes cannot be read`);
    else if (known.includes(name) || own.includes(name)) table[name] = readValue(kind, table, name, value, where, faults);
    else faults.push(`${where}: ${table.kind} has no ${JSON.stringify(name)}`);
  }
  return isWritten(kind, table.kind) ? { ...tableOf(kind, table.kind), ...table } : complete(kind, table);
}

// Links from before have the learning rate second, then b4 for batches of four and s5 for a seed.
function split(text, where, faults) {
  const [kind, ...more] = text.split(','), table = { kind };
  for (const [k, part] of more.entries()) {
    const [name, ...rest] = part.split('='), value = rest.join('=');
    if (rest.length) table[name] = plainValue(value);
    else if (/^b\d+$/.test(part)) table.batch_size = Number(part.slice(1));
    else if (/^s\d+$/.test(part)) table.seed = Number(part.slice(1));
    else if (/^\d+:/.test(part)) table.changes = [...(table.changes ?? []), { step: Number(part.split(':')[0]), rate: plainValue(part.split(':')[1]) }];
    else if (k === 0) table.learning_rate = plainValue(part);
    else faults.push(`${where}: ${JSON.stringify(part)} cannot be read`);
  }
  return table;
}
