// What moves: margins, particles or the matrix W, whichever is cheapest; the path is the same.
//
// `see(state)` comes first; `look()`, `pull(law, out)` and `bend(direction, out)` then speak of that state.

import { dot, norm, times, timesTransposed, transposedTimes } from './linear.js';
import { gapOf } from './problems.js';

export function systemOf(problem, needsWeights, W) {
  const { N, M, d, k } = problem;
  const weights = 2 * Math.min(M * d * (k + N), N * k * (d + M)), particles = N * N * M + N * M * M;
  if (!needsWeights && M === 2 && weights >= N * N) return new Margins(problem, W);
  return !needsWeights && particles < weights ? new Particles(problem, W) : new Memory(problem);
}

// Two classes: of each token its margin, then the coefficient of its updates, then how much of W_0 is kept.
class Margins {
  constructor(problem, origin) {
    const { N, d, inputs, labels } = problem, gap = gapOf(problem), contrast = dot(gap, gap);
    const signs = Float64Array.from(labels, (label) => 1 - 2 * label), K = timesTransposed(inputs, inputs, N, N, d);
    for (let x = 0; x < N; x++) for (let y = 0; y < N; y++) K[x * N + y] *= contrast * (signs[x] * signs[y]);
    Object.assign(this, { problem, origin, gap, signs, K, law: problem.probs, size: 2 * N + 1 });
    this.less = new Float64Array(N); // exp(-|m|)
    this.wrong = new Float64Array(N); // 1 / (1 + exp m)
    this.margins = new Float64Array(N);
    this.losses = new Float64Array(N);
  }

  start(W) {
    const { N, d, k, inputs } = this.problem, state = new Float64Array(this.size), gamma = new Float64Array(d);
    for (let j = 0; j < d; j++) for (let i = 0; i < k; i++) gamma[j] += this.gap[i] * W[i * d + j];
    for (let x = 0; x < N; x++) {
      let sum = 0;
      for (let j = 0; j < d; j++) sum += inputs[x * d + j] * gamma[j];
      state[x] = this.signs[x] * sum;
    }
    state[2 * N] = 1;
    return state;
  }

  see(state) {
    const { margins, less, wrong } = this;
    for (let x = 0; x < margins.length; x++) {
      const m = state[x], e = Math.exp(-Math.abs(m));
      margins[x] = m;
      less[x] = e;
      wrong[x] = (m > 0 ? e : 1) / (1 + e);
    }
  }

  look() {
    const { margins, less, law, signs, losses } = this;
    let loss = 0, error = 0;
    for (let x = 0; x < margins.length; x++) {
      const m = margins[x];
      losses[x] = (m < 0 ? -m : m !== m ? NaN : 0) + Math.log1p(less[x]);
      loss += law[x] * losses[x];
      if (!(m > 0 || (m === 0 && signs[x] > 0))) error += law[x]; // a tie goes to the first class
    }
    this.loss = loss;
    this.error = error;
  }

  pull(law, out) {
    const N = this.margins.length, { K, wrong } = this;
    for (let x = 0; x < N; x++) out[N + x] = -law[x] * wrong[x];
    for (let x = 0; x < N; x++) {
      let sum = 0;
      for (let y = 0; y < N; y++) sum += K[x * N + y] * out[N + y];
      out[x] = sum;
    }
    out[2 * N] = 0;
  }

  // p (q - 1_own) for each pair, (N, 2); and scores of which these are the margins.
  residual(law, out) {
    const { labels } = this.problem;
    labels.forEach((own, x) => { out[2 * x + own] = -law[x] * this.wrong[x]; out[2 * x + 1 - own] = law[x] * this.wrong[x]; });
  }

  scoresAt(state, out) { this.problem.labels.forEach((own, x) => { out[2 * x + own] = state[x]; out[2 * x + 1 - own] = 0; }); }

  bend(direction, out) {
    const N = this.margins.length, { K, wrong, law } = this;
    for (let x = 0; x < N; x++) out[N + x] = law[x] * wrong[x] * (1 - wrong[x]) * direction[x];
    for (let x = 0; x < N; x++) {
      let sum = 0;
      for (let y = 0; y < N; y++) sum += K[x * N + y] * out[N + y];
      out[x] = sum;
    }
    out[2 * N] = 0;
  }

  weights(state, out) {
    const { d, k, inputs } = this.problem, { signs, gap, origin } = this, N = signs.length, kept = state[2 * N];
    for (let j = 0; j < d; j++) {
      let pushed = 0;
      for (let x = 0; x < N; x++) pushed += state[N + x] * signs[x] * inputs[x * d + j];
      for (let i = 0; i < k; i++) out[i * d + j] = kept * origin[i * d + j] + gap[i] * pushed;
    }
    return out;
  }

  speed(direction) { return norm(direction.subarray(0, this.margins.length)); }

  norm(direction) {
    const N = this.margins.length;
    return Math.sqrt(Math.max(dot(direction.subarray(0, N), direction.subarray(N, 2 * N)), 0));
  }
}

// What scores, (N, M), show: probabilities without cancellation, losses, margins, the error.
export class Readout {
  constructor({ N, M, labels, probs }) {
    Object.assign(this, { N, M, labels, law: probs });
    this.mass = new Float64Array(N * M); // exp(w - top)
    this.wrong = new Float64Array(N); // its sum over the wrong classes
    this.gap = new Float64Array(N); // top less the own score
    this.margins = new Float64Array(N);
    this.losses = new Float64Array(N);
    this.isRight = new Uint8Array(N);
  }

  see(w) {
    const { N, M, labels, mass, wrong, gap, margins, isRight } = this;
    for (let x = 0; x < N; x++) {
      const row = x * M, own = labels[x];
      let top = -Infinity, best = 0, rival = -Infinity, sum = 0;
      for (let y = 0; y < M; y++) {
        const score = w[row + y];
        if (score !== score) { top = NaN; break; }
        if (score > top) { top = score; best = y; }
        if (y !== own && score > rival) rival = score;
      }
      for (let y = 0; y < M; y++) { mass[row + y] = Math.exp(w[row + y] - top); if (y !== own) sum += mass[row + y]; }
      wrong[x] = sum;
      gap[x] = top - w[row + own];
      margins[x] = top !== top ? NaN : w[row + own] - rival;
      isRight[x] = best === own ? 1 : 0;
    }
  }

  look() {
    const { N, M, law, labels, losses, mass, wrong, gap, isRight } = this;
    let loss = 0, error = 0;
    for (let x = 0; x < N; x++) {
      losses[x] = gap[x] + (gap[x] > 0 ? Math.log(wrong[x] + mass[x * M + labels[x]]) : Math.log1p(wrong[x]));
      loss += law[x] * losses[x];
      if (!isRight[x]) error += law[x];
    }
    this.loss = loss;
    this.error = error;
  }

  // Of numbers for each pair, that of a token's strongest rival; the mean of those that tie.
  ofRivals(x, values) {
    const { M, labels, mass } = this;
    let top = -1, sum = 0, count = 0;
    for (let y = 0; y < M; y++) {
      if (y === labels[x] || mass[x * M + y] < top) continue;
      if (mass[x * M + y] > top) { top = mass[x * M + y]; sum = 0; count = 0; }
      sum += values[x * M + y];
      count += 1;
    }
    return sum / count;
  }

  // p (q - 1_own) for each pair: of the own class, minus the mass of the others.
  residual(law, out) {
    const { N, M, labels, mass, wrong } = this;
    for (let x = 0; x < N; x++) {
      const own = x * M + labels[x], scale = law[x] / (wrong[x] + mass[own]);
      for (let y = x * M; y < (x + 1) * M; y++) out[y] = scale * mass[y];
      out[own] = -scale * wrong[x];
    }
  }

  // p (diag q - q q^T) dw for each token, measured from its likeliest class.
  bent(dw, out) {
    const { N, M, labels, mass, wrong, law } = this;
    for (let x = 0; x < N; x++) {
      const row = x * M, total = wrong[x] + mass[row + labels[x]];
      let best = 0, mean = 0;
      for (let y = 1; y < M; y++) if (mass[row + y] > mass[row + best]) best = y;
      const from = dw[row + best];
      for (let y = 0; y < M; y++) mean += (mass[row + y] / total) * (dw[row + y] - from);
      for (let y = 0; y < M; y++) out[row + y] = law[x] * (mass[row + y] / total) * (dw[row + y] - from - mean);
    }
  }
}

// Systems that are read through scores.
class Scored {
  constructor(problem) {
    this.problem = problem;
    this.readout = new Readout(problem);
    this.law = problem.probs;
    this.margins = this.readout.margins;
    this.losses = this.readout.losses;
    this.part = new Float64Array(problem.N * problem.M);
  }

  residual(law, out) { this.readout.residual(law, out); }

  look() {
    this.readout.look();
    this.loss = this.readout.loss;
    this.error = this.readout.error;
  }
}

// Scores (N, M), the coefficients of the updates, and how much of W_0 is kept.
class Particles extends Scored {
  constructor(problem, origin) {
    super(problem);
    const { N, M, d, k, inputs, outputs } = problem;
    Object.assign(this, { origin, size: 2 * N * M + 1 });
    this.alpha = timesTransposed(inputs, inputs, N, N, d);
    this.gram = timesTransposed(outputs, outputs, M, M, k);
  }

  start(W) {
    const state = new Float64Array(this.size);
    scoresOf(this.problem, W, state);
    state[this.size - 1] = 1;
    return state;
  }

  see(state) { this.readout.see(state); }
  scoresAt(state, out) { out.set(state.subarray(0, out.length)); }

  spread(out) {
    const { N, M } = this.problem, count = N * M;
    times(this.alpha, out.subarray(count), N, M, N, this.part);
    times(this.part, this.gram, N, M, M, out);
    out[2 * count] = 0;
  }

  pull(law, out) { this.readout.residual(law, out.subarray(this.part.length)); this.spread(out); }
  bend(direction, out) { this.readout.bent(direction, out.subarray(this.part.length)); this.spread(out); }

  weights(state, out) {
    const kept = state[this.size - 1], { origin } = this;
    gradientOf(this.problem, state.subarray(this.part.length), out);
    for (let i = 0; i < out.length; i++) out[i] += kept * origin[i];
    return out;
  }

  speed(direction) { return norm(direction.subarray(0, this.part.length)); }

  norm(direction) {
    const count = this.part.length;
    return Math.sqrt(Math.max(dot(direction.subarray(0, count), direction.subarray(count, 2 * count)), 0));
  }
}

// The matrix W itself, (k, d).
export class Memory extends Scored {
  constructor(problem) {
    super(problem);
    this.size = problem.k * problem.d;
    this.scores = new Float64Array(problem.N * problem.M);
  }

  start(W) { return Float64Array.from(W); }
  see(state) { scoresOf(this.problem, state, this.scores); this.readout.see(this.scores); }
  scoresAt(state, out) { scoresOf(this.problem, state, out); }
  pull(law, out) { this.readout.residual(law, this.part); gradientOf(this.problem, this.part, out); }

  bend(direction, out) {
    const change = (this.change ??= new Float64Array(this.part.length));
    scoresOf(this.problem, direction, change);
    this.readout.bent(change, this.part);
    gradientOf(this.problem, this.part, out);
  }

  weights(state, out) { out.set(state); return out; }
  speed(direction) { return norm(direction); }
  norm(direction) { return Math.sqrt(dot(direction, direction)); }
}

// w = E W^T U^T, (N, M), the cheaper product first.
const room = new Map();
const scratch = (size) => { if (!room.has(size)) room.set(size, new Float64Array(size)); return room.get(size); };
const isOutputsFirst = ({ N, M, d, k }) => M * d * (2 * k + N) < N * k * (d + M);

export function scoresOf(problem, W, out) {
  const { N, M, d, k, inputs, outputs } = problem;
  if (isOutputsFirst(problem)) return timesTransposed(inputs, times(outputs, W, M, d, k, scratch(M * d)), N, M, d, out);
  return timesTransposed(timesTransposed(inputs, W, N, k, d, scratch(N * k)), outputs, N, M, k, out);
}

// U^T c^T E, (k, d), from coefficients c, (N, M).
export function gradientOf(problem, c, out) {
  const { N, M, d, k, inputs, outputs } = problem;
  if (isOutputsFirst(problem)) return transposedTimes(outputs, transposedTimes(c, inputs, M, d, N, scratch(M * d)), k, d, M, out);
  return transposedTimes(times(c, outputs, N, k, M, scratch(N * k)), inputs, k, d, N, out);
}
