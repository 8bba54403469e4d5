// The engine: from the parts of a state that the page wants to the header and the arrays of the server's payload.

import { causesOf } from './causes.js';
import { descend, evenly } from './descent.js';
import { flow } from './flow.js';
import { needsWeights, decayOf } from './optimizers.js';
import { hasPlane, problemOf, spanOf } from './problems.js';
import { planePart } from './plane.js';
import { Follower } from './pushes.js';
import { numpyNormals } from './random.js';
import { symbolOf } from './records.js';
import { pythonLines } from './python.js';
import { Beyond, Refused, isWithin, read } from './requests.js';
import { most, sharpnessOf } from './sharpness.js';

export { Beyond, Refused, pythonLines };

const VERSION = 1;
const TEXTS = { completed: 'completed', 'not finite': 'a state was not finite; lower the learning rate' };

// Whether the engine can compute all that a state shows.
export const can = (state) => isWithin(state);

// The whole answer at once.
export function answer(request) {
  const work = answering(request);
  for (;;) { const { done, value } = work.next(); if (done) return value; }
}

// The same piece by piece: between two of them whoever asks may go away.
export function* answering({ parts, state: given, step = 0, run: number = 0 }) {
  const state = read(given, parts), problem = problemOf(state.problem), header = { version: VERSION }, arrays = {};
  const put = (prefix, found) => { for (const [name, values] of Object.entries(found)) arrays[`${prefix}.${name}`] = values; };
  if (parts.includes('runs')) {
    header.runs = [];
    for (const [k, run] of state.runs.entries()) {
      const [words, series] = yield* runPart(state, run, problem);
      header.runs.push(words);
      put(`runs.${k}`, series);
    }
  }
  if (parts.includes('causes')) {
    header.causes = [];
    for (const run of state.runs) header.causes.push(yield* causesPart(state, run, problem));
  }
  if (parts.includes('pushes')) {
    const [words, shares] = yield* pushesPart(state, step, number, problem);
    header.pushes = words;
    put('pushes', shares);
  }
  if (parts.includes('plane')) {
    const [words, drawn] = planePart(state, problem);
    header.plane = words;
    put('plane', drawn);
  }
  if (parts.includes('python')) header.python = pythonLines(given);
  return { header, arrays };
}

function startOf({ start }, problem) {
  const { d, k, outputs } = problem, W = new Float64Array(k * d);
  if (hasPlane(problem)) {
    let contrast = 0;
    for (let i = 0; i < k; i++) contrast += (outputs[i] - outputs[k + i]) ** 2;
    for (let i = 0; i < k; i++) { W[2 * i] = ((outputs[i] - outputs[k + i]) / contrast) * start.a; W[2 * i + 1] = ((outputs[i] - outputs[k + i]) / contrast) * start.b; }
  } else if (start.scale > 0) numpyNormals(start.seed, k * d).forEach((value, i) => { W[i] = (start.scale * value) / Math.sqrt(d); });
  return W;
}

const shaped = (values, ...shape) => Object.assign(values, { shape });

function* runPart(state, table, problem) {
  const extra = state.record.map(({ kind }) => kind), { N } = problem;
  const run = yield* (table.kind === 'flow' ? flow : descend)({ problem, table, steps: state.steps, W: startOf(state, problem), extra });
  const { records, clock, time, status } = run, count = clock.length;
  const series = { step: shaped(Float64Array.from(clock), count), time: shaped(time, count), loss: shaped(records.loss, count), error: shaped(records.error, count), margins: shaped(records.margins, count, N) };
  for (const name of extra) series[`record.${name}`] = records.more[name];
  if (hasPlane(problem)) series.path = pathOf(problem, records.weights, count);
  yield;
  Object.assign(series, yield* curvature(problem, records.weights, clock));
  return [{
    ...run.events.describe({ last: run.last, step: run.step, clock, margins: records.margins, problem }),
    status, status_text: run.text ?? TEXTS[status], needs_key: run.needsKey, unknown: {}, has_later: false,
    thresholds: run.thresholds, found: [], symbols: Object.fromEntries(extra.map((name) => [name, symbolOf(name)])),
  }, series];
}

// --- who pushed whom: of descents whose updates are linear in gradients ---

const isLinear = (table) => table.kind !== 'flow' && !needsWeights(table) && !(decayOf(table) > 0) && table.sampling !== 'curriculum';
const simulated = (state, table, problem) => (table.kind === 'flow' ? flow : descend)({ problem, table, steps: state.steps, W: startOf(state, problem), extra: [] });

function* causesPart(state, table, problem) {
  const { events } = yield* simulated(state, table, problem);
  if (!events.numSpikes) return [];
  if (!isLinear(table)) throw new Beyond("the causes of these spikes need the library's server.");
  return yield* causesOf(problem, table, state.steps, startOf(state, problem), events.spikes);
}

function* pushesPart(state, step, number, problem) {
  const table = state.runs[number], { N } = problem;
  if (!table) throw new Refused(`run: must be one of the ${state.runs.length} runs, got ${number}.`);
  if (table.kind === 'flow') throw new Refused('flow makes no steps, so that the pushes of one are not known.');
  if (!isLinear(table)) throw new Beyond("these pushes need the library's server.");
  const first = Math.min(step, state.steps - 1);
  const { push, rest, change } = yield* new Follower(problem, table, state.steps, startOf(state, problem)).between(first, first + 1, 'first');
  return [{ run: number, first, last: first + 1 }, { push: shaped(push, N, N), rest: shaped(rest, N), change: shaped(change, N) }];
}

// Where weights lie in the plane; what no token feels does not count.
function pathOf(problem, weights, count) {
  const { outputs, k } = problem, { A, s } = spanOf(problem), path = new Float64Array(2 * count);
  for (let row = 0; row < count; row++) {
    const gamma = [0, 0];
    for (let i = 0; i < k; i++) for (let j = 0; j < 2; j++) gamma[j] += (outputs[i] - outputs[k + i]) * weights[row * 2 * k + 2 * i + j];
    if (s === 2) path.set(gamma, 2 * row);
    else for (let c = 0; c < s; c++) {
      const along = A[c] * gamma[0] + A[s + c] * gamma[1];
      path[2 * row] += along * A[c];
      path[2 * row + 1] += along * A[s + c];
    }
  }
  return shaped(path, count, 2);
}

function* curvature(problem, weights, clock) {
  const width = problem.k * problem.d, W = (row) => weights.subarray(row * width, (row + 1) * width);
  const at = evenly(clock.length, most(problem)).filter((row) => W(row).every(Number.isFinite)), values = new Float64Array(at.length);
  for (const [k, row] of at.entries()) {
    values[k] = sharpnessOf(problem, W(row));
    if (k % 16 === 15) yield;
  }
  return { sharpness_step: shaped(Float64Array.from(at, (row) => clock[row]), at.length), sharpness: shaped(values, at.length) };
}
