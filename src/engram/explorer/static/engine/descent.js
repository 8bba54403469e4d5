// Descent: an optimizer times a sampling, step by step in place, with events at every step.

import { Events } from './events.js';
import { changeOf, decayOf, isDrawing, needsWeights, samplingOf, thresholdOf } from './optimizers.js';
import { keyOf } from './random.js';
import { Records } from './records.js';
import { systemOf } from './systems.js';

const DENSE_STEPS = 1000; // up to here every step is recorded
const FEW_STEPS = 400; // recorded, evenly on a logarithmic scale, beyond
const FEW = 33; // thresholds of rates that change all the time
const BETWEEN = 256; // steps between two looks at whether anybody still waits

export function recordedSteps(steps) {
  if (steps <= DENSE_STEPS) return Float64Array.from({ length: steps + 1 }, (_, step) => step);
  const all = new Set([0, steps]), top = Math.log1p(steps);
  for (let k = 0; k < FEW_STEPS; k++) all.add(Math.min(roundEven(Math.expm1(k === FEW_STEPS - 1 ? top : k * (top / (FEW_STEPS - 1)))), steps));
  return Float64Array.from([...all].sort((a, b) => a - b));
}

// At most so many of the places 0 to count - 1, evenly spread, both ends among them.
export function evenly(count, most) {
  const size = Math.min(count, most), last = count - 1;
  const at = Array.from({ length: size }, (_, k) => roundEven(size === 1 ? 0 : k === size - 1 ? last : k * (last / (size - 1))));
  return [...new Set(at)];
}

export function roundEven(value) {
  const low = Math.floor(value), rest = value - low;
  return rest > 0.5 || (rest === 0.5 && low % 2) ? low + 1 : low;
}

// The learning rate of each step: a number, one per step, or changes on the way.
export function ratesOf({ learning_rate: rate, changes = [] }, steps) {
  if (Array.isArray(rate)) return Float64Array.from(rate);
  const rates = new Float64Array(Math.max(steps, 1)).fill(rate);
  for (const { step, rate: next } of changes) rates.fill(next, Math.min(step, steps));
  return rates;
}

export function* descend({ problem, table, steps, W, extra }) {
  const system = systemOf(problem, needsWeights(table), W), { size, margins } = system, events = new Events(problem.N);
  const rates = ratesOf(table, steps), lambda = decayOf(table), change = changeOf(table, size);
  const draw = samplingOf(table, problem, keyOf(table.seed ?? 0)), law = draw ? new Float64Array(problem.N) : problem.probs;
  const g = new Float64Array(size), at = recordedSteps(steps), records = new Records(system, at.length, extra, { draw, steps });
  let state = system.start(W), ahead = new Float64Array(size), next = 0, status = 'completed';
  const here = { index: 0, state, system };
  for (let index = 0; ; index++) {
    system.see(state);
    system.look();
    if (index === at[next]) records.put(next++, state, index);
    events.update(index, system.loss, system.error, margins);
    if (index === steps) break;
    if (draw) draw(index, law);
    system.pull(law, g);
    if (lambda > 0) for (let i = 0; i < size; i++) g[i] += lambda * state[i];
    here.index = index;
    here.state = state;
    change(g, here);
    const eta = rates[index];
    let sum = 0;
    for (let i = 0; i < size; i++) sum += ahead[i] = state[i] - eta * g[i];
    if (!Number.isFinite(sum)) { status = 'not finite'; break; }
    [state, ahead] = [ahead, state];
    if (index % BETWEEN === BETWEEN - 1) yield;
  }
  const clock = at.subarray(0, next), last = status === 'completed' ? steps : here.index;
  return {
    records: records.upTo(next), clock, time: timesOf(table, rates, clock), status, events, last, step: (index) => index,
    thresholds: thresholdsOf(table, rates, steps), needsKey: isDrawing(table),
  };
}

// The flow time of each record: the sum of the learning rates so far.
function timesOf({ learning_rate: rate, changes = [] }, rates, clock) {
  if (!Array.isArray(rate) && !changes.length) return clock.map((step) => rate * step);
  const summed = new Float64Array(rates.length + 1);
  for (let k = 0; k < rates.length; k++) summed[k + 1] = summed[k] + rates[k];
  return clock.map((step) => summed[step]);
}

function thresholdsOf(table, rates, steps) {
  let from = [0, ...(table.changes ?? []).map(({ step }) => step).filter((step) => step < steps)];
  if (Array.isArray(table.learning_rate)) from = evenly(steps, FEW);
  return from.map((step) => [step, thresholdOf(table, rates[Math.min(step, rates.length - 1)])]).filter(([, value]) => Number.isFinite(value));
}
