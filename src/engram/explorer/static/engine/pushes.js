// Who pushed whom: the change of every margin between two steps, divided among the tokens that made it.

import { changeOf, samplingOf } from './optimizers.js';
import { keyOf } from './random.js';
import { systemOf } from './systems.js';
import { ratesOf } from './descent.js';
import { timesTransposed } from './linear.js';

// A descent whose updates are linear in gradients, made again, with what each token added to the coefficients of
// its pulls on every class.
export class Follower {
  constructor(problem, table, steps, W) {
    const { N, M } = problem, system = systemOf(problem, false, W), { size } = system;
    Object.assign(this, { problem, table, system, state: system.start(W), index: 0 });
    this.rates = ratesOf(table, steps);
    this.change = changeOf(table, size);
    this.draw = samplingOf(table, problem, keyOf(table.seed ?? 0));
    this.law = this.draw ? new Float64Array(N) : problem.probs;
    this.g = new Float64Array(size);
    this.part = new Float64Array(N * M); // of the gradient at hand, and of the average of past ones
    this.past = new Float64Array(N * M);
    this.alpha = timesTransposed(problem.inputs, problem.inputs, N, N, problem.d);
  }

  // On to a step. Coefficients and laws are added up if they are given.
  * go(until, coefficients = null, often = null) {
    const { system, problem: { N, M }, g, part, past, draw, law, table } = this, { size } = system, here = { system };
    for (; this.index < until; this.index++) {
      const { index, state } = this, eta = this.rates[index];
      system.see(state);
      if (draw) draw(index, law);
      system.pull(law, g);
      system.residual(law, part);
      const share = shareOf(table, g, system);
      for (let i = 0; i < N * M; i++) part[i] = share(part, past, i);
      Object.assign(here, { index, state });
      this.change(g, here);
      if (coefficients) for (let i = 0; i < N * M; i++) coefficients[i] -= eta * part[i];
      if (often) for (let x = 0; x < N; x++) often[x] += law[x];
      for (let i = 0; i < size; i++) state[i] -= eta * g[i];
      if (index % 64 === 63) yield;
    }
  }

  // Margins against every class, (N, M), and the losses of tokens.
  seen() {
    const { system, problem: { N, M, labels } } = this, against = new Float64Array(N * M), scores = new Float64Array(N * M);
    system.see(this.state);
    system.look();
    system.scoresAt(this.state, scores);
    for (let x = 0; x < N; x++) for (let y = 0; y < M; y++) against[x * M + y] = scores[x * M + labels[x]] - scores[x * M + y];
    return { against, losses: system.losses.slice(), rivals: this.rivalsOf(against) };
  }

  rivalsOf(against) {
    const { M, labels } = this.problem;
    return Array.from(labels, (own, x) => {
      let best = own === 0 ? 1 : 0;
      for (let y = 0; y < M; y++) if (y !== own && against[x * M + y] < against[x * M + best]) best = y;
      return best;
    });
  }

  // What changed the margins from one step to a later one, against each token's strongest rival at one of the two.
  * between(first, last, rival) {
    const { problem } = this, { N, M, k, outputs, labels } = problem;
    yield* this.go(first);
    const before = this.seen(), W = this.weights(), coefficients = new Float64Array(N * M), often = new Float64Array(N);
    yield* this.go(last, coefficients, often);
    const after = this.seen(), { rivals } = rival === 'first' ? before : after;
    // How a unit of a source's pull on a class moves a token against its rival.
    const gram = timesTransposed(outputs, outputs, M, M, k), push = new Float64Array(N * N), reach = new Float64Array(N * N);
    for (let x = 0; x < N; x++) for (let source = 0; source < N; source++) {
      let along = 0;
      for (let y = 0; y < M; y++) along += (gram[labels[x] * M + y] - gram[rivals[x] * M + y]) * coefficients[source * M + y];
      reach[x * N + source] = along;
      push[x * N + source] = this.alpha[x * N + source] * along;
    }
    const at = ({ against, rivals: own }, x) => against[x * M + own[x]];
    const change = Float64Array.from({ length: N }, (_, x) => at(after, x) - at(before, x));
    const rest = change.map((value, x) => { let sum = 0; for (let source = 0; source < N; source++) sum += push[x * N + source]; return value - sum; });
    const strength = Float64Array.from({ length: N }, (_, x) => coefficients.subarray(x * M, (x + 1) * M).reduce((sum, value) => sum + Math.abs(value), 0) / 2);
    return { push, change, rest, reach, strength, often: often.map((value) => value / Math.max(last - first, 1)), before, after, W };
  }

  weights() { const { k, d } = this.problem; return this.system.weights(this.state, new Float64Array(k * d)); }
}

// A token's part of a change before the learning rate, from its part of the gradient and of past ones.
function shareOf({ kind, optimizer, momentum: beta = 0.9 }, g, system) {
  const name = kind === 'descent' ? optimizer : kind;
  if (name === 'momentum') return (part, past, i) => (past[i] = part[i] + beta * past[i]);
  if (name === 'nesterov') return (part, past, i) => { past[i] = part[i] + beta * past[i]; return part[i] + beta * past[i]; };
  if (name !== 'normalised') return (part, past, i) => part[i];
  const size = system.norm(g), factor = size > 0 ? 1 / size : 0;
  return (part, past, i) => factor * part[i];
}
