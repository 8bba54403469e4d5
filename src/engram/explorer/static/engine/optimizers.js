// Optimizers and samplings: from gradients to changes of a state, and which law of the data a step sees.

import { svd, times, timesTransposed, transposed } from './linear.js';
import { foldIn, permutation, uniform } from './random.js';

// Each maker takes the numbers of a table and the state's size; what it returns turns a gradient, in place,
// into a change before the learning rate.
const MAKERS = {
  plain: () => () => {},
  momentum: ({ momentum: beta = 0.9 }, size) => {
    const v = new Float64Array(size);
    return (g) => { for (let i = 0; i < size; i++) g[i] = v[i] = g[i] + beta * v[i]; };
  },
  nesterov: ({ momentum: beta = 0.9 }, size) => {
    const v = new Float64Array(size);
    return (g) => { for (let i = 0; i < size; i++) { v[i] = g[i] + beta * v[i]; g[i] += beta * v[i]; } };
  },
  normalised: () => (g, { system }) => {
    const size = system.norm(g);
    for (let i = 0; i < g.length; i++) g[i] = size > 0 ? g[i] / size : 0; // no direction is left at zero
  },
  sign: () => (g) => { for (let i = 0; i < g.length; i++) g[i] = Math.sign(g[i]); },
  rmsprop: ({ decay = 0.9, eps = 1e-8 }, size) => {
    const nu = new Float64Array(size);
    return (g) => { for (let i = 0; i < size; i++) { nu[i] = (1 - decay) * (g[i] * g[i]) + decay * nu[i]; g[i] *= 1 / Math.sqrt(nu[i] + eps); } };
  },
  adam,
  adamw: (numbers, size) => {
    const change = adam(numbers, size), { weight_decay: decay = 1e-4 } = numbers;
    return (g, at) => { change(g, at); for (let i = 0; i < size; i++) g[i] += decay * at.state[i]; };
  },
  muon: ({ momentum: beta = 0.95 }, size) => {
    const mu = new Float64Array(size);
    return (g, { index, system: { problem } }) => {
      const here = 1 - beta ** (index + 1), next = 1 - beta ** (index + 2);
      for (let i = 0; i < size; i++) {
        mu[i] = (1 - beta) * g[i] + beta * mu[i];
        g[i] = beta * (mu[i] / next) + (1 - beta) * (g[i] / here);
      }
      nearlyOrthogonal(g, problem.k, problem.d);
    };
  },
  exact_muon: ({ cutoff = 1e-10 }) => (g, { system: { problem: { k, d } } }) => {
    const { U, s, V } = svd(g, k, d), r = s.length, least = Math.max(cutoff, Math.max(k, d) * Number.EPSILON) * s[0];
    for (let i = 0; i < k; i++) for (let j = 0; j < r; j++) if (!(s[j] > least)) U[i * r + j] = 0;
    timesTransposed(U, V, k, d, r, g);
  },
};

export const OPTIMIZERS = Object.keys(MAKERS);
export const LINEAR = ['plain', 'momentum', 'nesterov', 'normalised']; // particles can follow them
const DIVIDING = ['adam', 'adamw', 'rmsprop']; // not the plain sharpness counts

function adam({ b1 = 0.9, b2 = 0.999, eps = 1e-8 }, size) {
  const mu = new Float64Array(size), nu = new Float64Array(size);
  return (g, { index }) => {
    const first = 1 - b1 ** (index + 1), second = 1 - b2 ** (index + 1);
    for (let i = 0; i < size; i++) {
      mu[i] = (1 - b1) * g[i] + b1 * mu[i];
      nu[i] = (1 - b2) * (g[i] * g[i]) + b2 * nu[i];
      g[i] = mu[i] / first / (Math.sqrt(nu[i] / second) + eps);
    }
  };
}

// Five rounds of Newton and Schulz with Muon's coefficients, on the side that is not longer.
function nearlyOrthogonal(G, rows, columns) {
  const isTall = rows > columns, m = isTall ? columns : rows, n = isTall ? rows : columns;
  const X = isTall ? transposed(G, rows, columns) : G.slice();
  const size = Math.sqrt(X.reduce((sum, x) => sum + x * x, 0)) + 1e-8;
  for (let i = 0; i < X.length; i++) X[i] /= size;
  for (let round = 0; round < 5; round++) {
    const A = timesTransposed(X, X, m, m, n), AA = times(A, A, m, m, m);
    for (let i = 0; i < A.length; i++) A[i] = -4.775 * A[i] + 2.0315 * AA[i];
    const more = times(A, X, m, n, m);
    for (let i = 0; i < X.length; i++) X[i] = 3.4445 * X[i] + more[i];
  }
  G.set(isTall ? transposed(X, m, n) : X);
}

// The optimizer of a run's table: its name, and what it does to gradients.
export const optimizerOf = ({ kind, optimizer }) => (kind === 'gd' || kind === 'sgd' ? 'plain' : kind === 'descent' ? optimizer : kind);
export const changeOf = (table, size) => MAKERS[optimizerOf(table)](table, size);

// A term lambda W of the gradient; adamw has a decay of its own.
export const decayOf = (table) => (optimizerOf(table) === 'adamw' ? 0 : table.weight_decay ?? 0);
export const needsWeights = (table) => !LINEAR.includes(optimizerOf(table)) || (optimizerOf(table) === 'normalised' && decayOf(table) > 0);

// The sharpness beyond which it is unstable on a quadratic, with a learning rate; NaN if that is not known.
export function thresholdOf(table, rate) {
  const name = optimizerOf(table), { momentum: beta = 0.9 } = table;
  const edge = { plain: 2 / rate, momentum: (2 * (1 + beta)) / rate, nesterov: (2 * (1 + beta)) / (rate * (1 + 2 * beta)) }[name] ?? NaN;
  return DIVIDING.includes(name) ? NaN : edge - decayOf(table);
}

// --- samplings ---

// What a step sees: null for all the data, or a function of the step's number that fills a law.
export function samplingOf(table, problem, key) {
  const name = table.sampling ?? (table.batch_size == null ? 'everything' : 'batches');
  return SAMPLINGS[name](table, problem, key);
}

export const DRAWING = ['batches', 'epochs'];
export const isDrawing = (table) => DRAWING.includes(table.sampling ?? (table.batch_size == null ? 'everything' : 'batches'));

const SAMPLINGS = {
  everything: () => null,
  batches: ({ batch_size: size }, { probs }, key) => {
    const reached = new Float64Array(probs.length);
    let total = 0;
    probs.forEach((p, x) => { reached[x] = total += p; });
    return (index, law) => {
      const here = foldIn(key, index);
      law.fill(0);
      for (let k = 0; k < size; k++) {
        const u = uniform(here, k) * total;
        let x = 0;
        while (x < reached.length && reached[x] <= u) x++;
        if (x < reached.length) law[x] += 1; // beyond the last, by rounding, JAX drops it
      }
      for (let x = 0; x < law.length; x++) law[x] /= size;
    };
  },
  epochs: ({ batch_size: size, counts }, problem, key) => {
    const samples = counts.flatMap((count, x) => new Array(count).fill(x)), each = Math.floor(samples.length / size);
    let epoch = -1, order = null;
    return (index, law) => {
      const now = Math.floor(index / each);
      if (now !== epoch) { order = permutation(foldIn(key, now), samples); epoch = now; }
      law.fill(0);
      const place = (index % each) * size;
      for (let k = place; k < place + size; k++) law[order[k]] += 1;
      for (let x = 0; x < law.length; x++) law[x] /= size;
    };
  },
  curriculum: ({ laws, lengths }) => {
    let reached = 0;
    const ends = lengths.map((length) => (reached += length));
    return (index, law) => {
      const stage = ends.findIndex((end) => index < end);
      law.set(laws[stage < 0 ? laws.length - 1 : stage]);
    };
  },
};
export const SAMPLINGS_KNOWN = Object.keys(SAMPLINGS);
