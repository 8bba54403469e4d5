// What the engine takes: states as the server takes them, refused in the same words where they are wrong.

import { DRAWS } from './draws.js';
import { FAMILIES } from './problems.js';
import { OPTIMIZERS, SAMPLINGS_KNOWN } from './optimizers.js';
import { OBSERVED } from './records.js';
import { general } from './events.js';

export class Beyond extends Error {} // for the library's server
export class Refused extends Error {}

const MOST_STEPS = 20000, MOST_RUNS = 4, MOST_EXTRA = 4, MOST_CHANGES = 4, MOST_TOKENS = 50;
const RATES = [1e-6, 1e6], SEEDS = [0, 2 ** 31 - 1], FAR = [-1e4, 1e4];
const PARTS = ['plane', 'runs', 'sharpness', 'causes', 'pushes', 'python'];

// --- fields: the library's own bounds, and the page's (`here`) ---

const whole = (low, high, more) => ({ isWhole: true, low, high, ...more });
const real = (low, high, more) => ({ low, high, ...more });
const share = real(0, null, { below: 1 });
const SEED = whole(0, 2 ** 63, { here: SEEDS });
const LAWS = { probs: { isOpen: true }, exponent: real(null, null, { here: [0, 4], isOptional: true }), targets: { isOpen: true } };
const SIZED = {
  num_tokens: whole(1, null, { here: [null, MOST_TOKENS], isNeeded: true }),
  num_classes: whole(2, null, { here: [null, 10], isNeeded: true }),
};
const DIM = whole(1, null, { here: [null, 32] });
export const PROBLEMS = {
  two: { correlation: real(-1, 1, { isNeeded: true }), p1: real(0, 1, { isNeeded: true }), dim: DIM, seed: SEED },
  orthonormal: { ...SIZED, dim: { ...DIM, isOptional: true }, ...LAWS, seed: SEED },
  one_hot: { ...SIZED, ...LAWS, seed: SEED },
  sphere: { ...SIZED, dim: { ...DIM, isNeeded: true }, ...LAWS, seed: SEED },
  gaussian: { ...SIZED, dim: { ...DIM, isNeeded: true }, ...LAWS, seed: SEED },
};

const RATE = real(0, null, { here: RATES, isNeeded: true, takesList: true });
const BATCH = whole(1, 2 ** 24, { here: [1, 64] });
const EPS = real(0, null), DECAY = real(0, null);
const OPTIMIZER_FIELDS = {
  plain: {}, normalised: {}, sign: {}, momentum: { momentum: share }, nesterov: { momentum: share }, muon: { momentum: share },
  adam: { b1: share, b2: share, eps: EPS }, adamw: { b1: share, b2: share, eps: EPS, weight_decay: DECAY }, rmsprop: { decay: share, eps: EPS },
  exact_muon: { cutoff: real(0, 1) },
};
const SAMPLING_FIELDS = { everything: {}, batches: { batch_size: { ...BATCH, isNeeded: true } } };

// The fields of a run's table; null if the engine does not know its kind.
export function runFields({ kind, optimizer, sampling }) {
  if (kind === 'gd') return { learning_rate: RATE };
  if (kind === 'sgd') return { learning_rate: RATE, batch_size: { ...BATCH, isNeeded: true } };
  if (kind === 'flow') return { rtol: real(null, null, { above: 0 }), atol: real(null, null, { above: 0 }) };
  const name = kind === 'descent' ? optimizer : kind;
  if (!OPTIMIZERS.includes(name)) return null;
  if (sampling !== undefined && !(sampling in SAMPLING_FIELDS && SAMPLINGS_KNOWN.includes(sampling))) return null;
  const own = kind === 'descent' ? { weight_decay: DECAY } : { batch_size: { ...BATCH, isOptional: true }, weight_decay: DECAY };
  return { ...own, learning_rate: RATE, ...OPTIMIZER_FIELDS[name], ...SAMPLING_FIELDS[sampling] };
}

// The bounds of every field by kind and name, for tests and controls.
export function described() {
  const bounds = ({ low = null, high = null, above = null, below = null, here = [] }) => {
    const tightest = (pick, ...values) => { const given = values.filter((value) => value !== null && value !== undefined); return given.length ? pick(...given) : null; };
    return [tightest(Math.max, low, above, here[0]), tightest(Math.min, high, below, here[1])];
  };
  const all = (fields) => Object.fromEntries(Object.entries(fields).filter(([, field]) => !field.isOpen).map(([name, field]) => [name, bounds(field)]));
  const named = (names, fieldsOf) => Object.fromEntries(names.map((name) => [name, all(fieldsOf(name))]));
  return {
    problem: named(FAMILIES, (name) => PROBLEMS[name]),
    dynamics: named(['gd', 'sgd', 'flow', ...OPTIMIZERS.filter((name) => name !== 'plain')], (kind) => runFields({ kind })),
  };
}

// --- checks ---

const isNumber = (value) => typeof value === 'number';

// Faults of a table's known fields, as the server words them: those of the library, or else the page's.
function tableFaults(where, table, fields, chooser = 'kind') {
  const own = [], page = [], missing = [];
  for (const [name, field] of Object.entries(fields)) {
    const value = table[name];
    if (value === undefined && field.isNeeded) missing.push(name);
    if (value === undefined || field.isOpen || (value === null && field.isOptional)) continue;
    const isList = field.takesList && Array.isArray(value);
    (isList ? value : [value]).forEach((item, k) => {
      const place = isList ? `${name}.${k}` : name, said = field.isWhole ? 'a whole number' : field.takesList && !isList ? 'a number or a list or a table' : 'a number';
      const fault = !isNumber(item) || (field.isWhole && !Number.isInteger(item)) ? `must be ${said}, got ${repr(item)}. Correct it.` : beyond(field, item);
      if (fault) own.push(`${where}.${place}: ${fault}`); else page.push(...beyondHere(where, name, field, item));
    });
  }
  if (missing.length) own.push(`${where}: ${chooser} ${repr(table.kind)} needs ${missing.join(', ')}. Give it.`);
  return (own.length ? own : page).slice(0, 3);
}

function beyond({ low = null, high = null, above, below }, value) {
  if (low !== null && value < low) return `must be at least ${low}, got ${repr(value)}. Choose a larger one.`;
  if (above !== undefined && value <= above) return `must be above ${above}, got ${repr(value)}. Choose a larger one.`;
  if (high !== null && value > high) return `must be at most ${high}, got ${repr(value)}. Choose a smaller one.`;
  if (below !== undefined && value >= below) return `must be below ${below}, got ${repr(value)}. Choose a smaller one.`;
  return null;
}

function beyondHere(where, name, { here = [], isWhole }, value) {
  const [low = null, high = null] = here, shown = isWhole ? repr(value) : float(value);
  const bound = (number) => (isWhole || Number.isInteger(number) ? (name === 'learning_rate' ? float(number) : repr(number)) : repr(number));
  if (low !== null && value < low) return [`${where}.${name}: must be at least ${bound(low)} here, got ${shown}. Choose a larger one.`];
  if (high !== null && value > high) return [`${where}.${name}: must be at most ${bound(high)} here, got ${shown}. Choose a smaller one.`];
  return [];
}

// A number that is not within bounds, as the server's checks of types word it.
function numberFaults(where, value, [low, high], isWhole = false) {
  const fault = (words) => [`${where}: input should be ${words}, got ${repr(value)}.`];
  if (!isNumber(value)) return fault(`a valid ${isWhole ? 'integer' : 'number'}`);
  if (isWhole && !Number.isInteger(value)) return fault('a valid integer');
  if (value < low) return fault(`greater than or equal to ${low}`);
  return value > high ? fault(`less than or equal to ${high}`) : [];
}

// As Python writes it.
export function repr(value) {
  if (typeof value === 'string') return `'${value}'`;
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (!isNumber(value)) return JSON.stringify(value);
  return Number.isInteger(value) && Math.abs(value) < 1e16 ? String(value) : float(value);
}
export function float(value) {
  if (!Number.isFinite(value)) return value !== value ? 'nan' : value > 0 ? 'inf' : '-inf';
  const [mantissa, power] = value.toExponential().split('e'), k = Number(power);
  if (value !== 0 && (k < -4 || k >= 16)) return `${mantissa}e${k < 0 ? '-' : '+'}${String(Math.abs(k)).padStart(2, '0')}`;
  const text = k < 0 ? value.toFixed(Math.max(0, (mantissa.split('.')[1]?.length ?? 0) - k)) : String(value);
  return Object.is(value, -0) ? '-0.0' : text.includes('.') ? text : `${text}.0`;
}

// --- the state ---

// Whether all that a state names is known here; its numbers may be wrong all the same.
export function isWithin(state) {
  try { return isKnown(normal(state)); } catch { return false; }
}

function isKnown({ problem, system, runs, record, events }) {
  const { kind } = problem;
  if (kind !== 'table' && kind !== 'paper' && !(kind === 'own' && problem.inputs) && !FAMILIES.includes(kind)) return false;
  if (kind === 'paper' && !Object.hasOwn(DRAWS, problem.name)) return false;
  const isTidy = (table, fields, ...more) => Object.keys(table).every((name) => name === 'kind' || name in fields || more.includes(name));
  if (FAMILIES.includes(kind) && !isTidy(problem, PROBLEMS[kind])) return false;
  if (system.kind !== 'memory' || system.layer_norm || events.length) return false;
  if (!record.every((item) => OBSERVED.includes(item.kind) && Object.keys(item).length === 1)) return false;
  return runs.every((run) => {
    const fields = runFields(run);
    if (!fields || (run.learning_rate !== null && typeof run.learning_rate === 'object' && !Array.isArray(run.learning_rate))) return false;
    return isTidy(run, fields, 'seed', 'changes', 'optimizer', 'sampling', 'learning_rate');
  });
}

const OLD = { method: 'kind', rate: 'learning_rate', batch: 'batch_size' };
const OLD_SIZES = { tokens: 'num_tokens', classes: 'num_classes' };
const renamed = (table, names) => Object.fromEntries(Object.entries(table).map(([name, value]) => [names[name] ?? name, value]));

// With what is usual filled in, and in today's names.
function normal(given) {
  const isTable = (item) => item !== null && typeof item === 'object' && !Array.isArray(item);
  if (!isTable(given.problem) || !given.runs.every(isTable)) throw new Beyond('this cannot be read here.');
  const problem = { kind: 'two', ...given.problem }, named = (item) => (typeof item === 'string' ? { kind: item } : item);
  return {
    ...given,
    problem: problem.kind === 'table' ? problem : renamed(problem, OLD_SIZES),
    system: { kind: 'memory', ...given.system },
    runs: given.runs.map(normalRun),
    start: { a: 0, b: 0, scale: 0, seed: 0, ...given.start },
    view: { x: 0, y: 0, half: 10, overlay: 'none', ...given.view },
    record: (given.record ?? []).map(named), events: (given.events ?? []).map(named),
  };
}

function normalRun(given) {
  if (!('method' in given)) return { kind: 'gd', ...given };
  const table = renamed(given, OLD);
  if (table.kind === 'sgd') return { batch_size: 4, ...table };
  delete table.batch_size;
  return table;
}

export function read(given, parts) {
  let state;
  try { state = normal(given); } catch { throw new Beyond('this cannot be read here.'); }
  const { problem, runs, steps, start, view, record } = state;
  const unknown = parts.find((part) => !PARTS.includes(part));
  if (unknown) throw new Beyond(`the part ${unknown} needs the library's server.`);
  if (!isKnown(state)) throw new Beyond("this needs the library's server.");
  if (!runs.length || runs.length > MOST_RUNS) throw new Beyond(`there must be 1 to ${MOST_RUNS} runs.`);
  if (record.length > MOST_EXTRA) throw new Beyond(`at most ${MOST_EXTRA} more traces can be drawn.`);
  const faults = [ // of one place each
    ...(problem.kind === 'table' ? tokenFaults(problem.tokens) : ['paper', 'own'].includes(problem.kind) ? [] : [tableFaults('problem', problem, PROBLEMS[problem.kind], 'family')]),
    ...runs.flatMap((run, k) => runFaults(`runs.${k}`, run)),
    numberFaults('steps', steps, [1, MOST_STEPS], true),
    ...['a', 'b'].map((name) => numberFaults(`start.${name}`, start[name], FAR)),
    numberFaults('start.scale', start.scale, [0, 100]),
    numberFaults('start.seed', start.seed, SEEDS, true),
    ...['x', 'y'].map((name) => numberFaults(`view.${name}`, view[name], FAR)),
    numberFaults('view.half', view.half, [0.01, 1e4]),
    ['none', 'sharpness', 'gradient'].includes(view.overlay) ? [] : [`view.overlay: input should be 'none', 'sharpness' or 'gradient', got ${repr(view.overlay)}.`],
  ].filter((found) => found.length);
  if (faults.length) throw new Refused(faults.slice(0, 3).flat().join('; '));
  checkProblem(problem);
  for (const run of runs) checkLists(run, steps);
  return state;
}

function tokenFaults(tokens) {
  if (Array.isArray(tokens) && !tokens.length) return [['problem.tokens: list should have at least 1 item after validation, not 0, got [].']];
  if (!Array.isArray(tokens) || tokens.length > MOST_TOKENS) throw new Beyond('this table is for the server.');
  return tokens.flatMap((token, k) => [
    ...['x', 'y'].map((name) => numberFaults(`problem.tokens.${k}.${name}`, token[name], FAR)),
    numberFaults(`problem.tokens.${k}.target`, token.target, [0, 1], true),
    numberFaults(`problem.tokens.${k}.prob`, token.prob, [0, 1]),
  ]);
}

function runFaults(where, run) {
  const { kind, changes = [], seed = 0, learning_rate: rate } = run, isFlow = kind === 'flow';
  if (isFlow && !(isNumber(rate) && rate >= RATES[0] && rate <= RATES[1])) return [[`${where}.learning_rate: must be a number from 1e-06 to 1e+06, got ${repr(rate ?? null)}. Choose another.`]];
  if (changes.length > MOST_CHANGES) throw new Beyond('so many changes are for the server.');
  const faults = [
    tableFaults(where, run, runFields(run)),
    ...changes.flatMap(({ step, rate: next }, k) => [numberFaults(`${where}.changes.${k}.step`, step, [1, MOST_STEPS], true), numberFaults(`${where}.changes.${k}.rate`, next, RATES)]),
    numberFaults(`${where}.seed`, seed, SEEDS, true),
  ].filter((found) => found.length);
  if (faults.length || !changes.length) return faults;
  const at = changes.map(({ step }) => step);
  if (isFlow || Array.isArray(rate)) return [[`${where}.changes: the learning rate of ${kind} cannot change during the run.`]];
  return at.some((step, k) => k && step <= at[k - 1]) ? [[`${where}.changes: must come at increasing steps, got [${at.join(', ')}].`]] : [];
}

function checkProblem(problem) {
  if (problem.kind === 'paper' || problem.kind === 'own') return;
  if (problem.kind === 'table') { checkLaw(problem.tokens.map(({ prob }) => prob)); return; }
  const { kind, num_tokens: N, num_classes: M, probs, targets } = problem, dim = problem.dim ?? Math.max(N, M);
  if (kind === 'two') {
    if (dim < 2) throw new Refused(`\`dim\` must be at least 2, got ${dim}. Two orthonormal outputs need it.`);
    return;
  }
  if (kind === 'orthonormal' && Math.max(N, M) > dim) throw new Refused(`\`dim\` must be at least the number of orthonormal vectors, ${N > dim ? N : M}, got ${dim}. Raise \`dim\`, or use \`on_sphere\` for vectors that may overlap.`);
  if (probs != null && probs !== 'uniform' && probs !== 'zipf') {
    if (!Array.isArray(probs) || probs.length !== N || !probs.every(isNumber)) throw new Beyond('these frequencies are for the server.');
    if (problem.exponent != null) throw new Beyond('an exponent with other frequencies is for the server.');
    checkLaw(probs);
  }
  if (probs === 'uniform' && problem.exponent != null) throw new Beyond('an exponent with other frequencies is for the server.');
  if (targets === 'identity' && N > M) throw new Refused(`\`targets\` = 'identity' needs a class for each token, got N = ${N} > M = ${M}. Raise the number of classes, or use 'mod'.`);
  if (Array.isArray(targets) && !(targets.length === N && targets.every((label) => Number.isInteger(label) && label >= 0 && label < M))) throw new Beyond('these targets are for the server.');
  if (targets !== undefined && !Array.isArray(targets) && !['identity', 'mod', 'random'].includes(targets)) throw new Beyond('these targets are for the server.');
  if (dim > 32) throw new Refused(`problem: must have dim of at most 32 here, got ${dim}.`);
}

function checkLaw(probs) {
  const total = probs.reduce((a, b) => a + b, 0);
  if (probs.some((p) => p < 0)) throw new Beyond('these frequencies are for the server.');
  if (Math.abs(total - 1) > 1e-9) throw new Refused(`\`probs\` must sum to 1, got ${general(total, 9)}. Normalise in float64 with \`probs / probs.sum()\`.`);
}

// What the number of steps decides.
function checkLists({ learning_rate: rate }, steps) {
  if (Array.isArray(rate) && rate.length !== steps) throw new Refused(`\`learning_rate\` must be a number, a schedule, or one number per step, got shape (${rate.length},) for ${steps} steps. Give ${steps} numbers.`);
}
