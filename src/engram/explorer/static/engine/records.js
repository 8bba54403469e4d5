// What is recorded of a run: the traces that the page always has, the weights, and what else is asked for.

import { norm, svd } from './linear.js';
import { sharpnessOf } from './sharpness.js';

// Each from { system, state, W, problem, index, draw, steps }; a number, or numbers of a length of its own.
const EXTRA = {
  token_losses: { symbol: 'l(x)', length: ({ N }) => N, of: ({ system }) => system.losses },
  grad_norm: { symbol: '|grad L|', of: ({ system, scratch }) => {
    const g = new Float64Array(system.size);
    system.pull(system.law, g);
    return norm(system.origin ? withoutOrigin(system, g, scratch) : g);
  } },
  weight_norm: { symbol: '|W|', of: ({ W }) => norm(W) },
  sharpness: { symbol: '|H|', of: ({ problem, W }) => sharpnessOf(problem, W) },
  singular_values: { symbol: 's_k', length: ({ k, d }) => Math.min(k, d), of: ({ problem: { k, d }, W }) => svd(W, k, d).s },
  effective_rank: { symbol: 'exp H(s)', of: ({ problem: { k, d }, W }) => {
    const { s } = svd(W, k, d), total = s.reduce((a, b) => a + b, 0);
    if (!(total > 0)) return NaN;
    return Math.exp(-s.reduce((sum, value) => sum + (value > 0 ? (value / total) * Math.log(value / total) : 0), 0));
  } },
  batch_loss: { symbol: 'L_B', of: ({ system, draw, index, steps }) => {
    if (!draw) return system.loss;
    if (index >= steps) return NaN;
    const law = new Float64Array(system.losses.length);
    draw(index, law);
    return law.reduce((sum, p, x) => sum + p * system.losses[x], 0);
  } },
};

export const OBSERVED = Object.keys(EXTRA);
export const symbolOf = (name) => EXTRA[name].symbol;

// The direction of W that a gradient in another space stands for: nothing of W_0 is in it.
function withoutOrigin(system, g, out) { g[system.size - 1] = 0; return system.weights(g, out); }

export class Records {
  constructor(system, count, extra, { draw = null, steps = 0 } = {}) {
    const { problem } = system, { N, k, d } = problem;
    Object.assign(this, { system, extra, N, width: k * d, draw, steps });
    for (const [name, each] of [['loss', 1], ['error', 1], ['margins', N], ['weights', k * d]]) this[name] = new Float64Array(count * each);
    this.more = extra.map((name) => new Float64Array(count * (EXTRA[name].length?.(problem) ?? 1)));
    this.scratch = new Float64Array(k * d);
  }

  // The state that the system has just seen and looked at.
  put(row, state, index = 0) {
    const { system, N, width } = this, { problem } = system, W = this.weights.subarray(row * width, (row + 1) * width);
    this.loss[row] = system.loss;
    this.error[row] = system.error;
    this.margins.set(system.margins, row * N);
    system.weights(state, W);
    this.extra.forEach((name, k) => {
      const value = EXTRA[name].of({ system, state, W, problem, index, draw: this.draw, steps: this.steps, scratch: this.scratch });
      if (EXTRA[name].length) this.more[k].set(value, row * value.length); else this.more[k][row] = value;
    });
  }

  // The first rows.
  upTo(count) {
    const cut = (values, total) => values.subarray(0, (values.length / Math.max(total, 1)) * count), total = this.loss.length;
    const more = Object.fromEntries(this.extra.map((name, k) => [name, Object.assign(cut(this.more[k], total), { shape: EXTRA[name].length ? [count, this.more[k].length / total] : [count] })]));
    return { loss: cut(this.loss, total), error: cut(this.error, total), margins: cut(this.margins, total), weights: cut(this.weights, total), more };
  }
}
