// Problems from the tables of a state: embeddings, frequencies and targets, as the library makes them.

import { DRAWS } from './draws.js';
import { basisOf, orthonormalised } from './linear.js';
import { integers, keyOf, normals, split } from './random.js';

// { N, M, d, k, inputs (N, d), outputs (M, k), probs, labels, names }
export function problemOf(part) {
  const table = { ...part };
  for (const [old, name] of [['tokens', 'num_tokens'], ['classes', 'num_classes']]) {
    if (part.kind !== 'table' && old in table) { table[name] = table[old]; delete table[old]; }
  }
  return complete((MAKERS[table.kind ?? 'two'])(table));
}

function complete({ inputs, outputs, probs, labels, d, k, names }) {
  const N = probs.length, M = outputs.length / k;
  return {
    N, M, d, k, labels: Int32Array.from(labels), names: names ?? Array.from({ length: N }, (_, x) => String(x)),
    inputs: Float64Array.from(inputs), outputs: Float64Array.from(outputs), probs: Float64Array.from(probs),
  };
}

export const FAMILIES = ['two', 'orthonormal', 'one_hot', 'sphere', 'gaussian'];
const MAKERS = {
  two({ correlation, p1, dim = 2 }) {
    const inputs = new Float64Array(2 * dim);
    inputs[0] = 1;
    inputs[dim] = correlation;
    inputs[dim + 1] = Math.sqrt((1 - correlation) * (1 + correlation));
    return { inputs, outputs: canonical(2, dim), probs: [p1, 1 - p1], labels: [0, 1], d: dim, k: dim };
  },
  paper: ({ name }) => DRAWS[name],
  own: (problem) => problem, // handed over with its arrays
  table: ({ tokens }) => ({
    inputs: tokens.flatMap(({ x, y }) => [x, y]), outputs: [1, 0, 0, 1], d: 2, k: 2,
    probs: tokens.map(({ prob }) => prob), labels: tokens.map(({ target }) => target),
  }),
  orthonormal(table) {
    const { num_tokens: N, num_classes: M, dim = Math.max(N, M) } = table, [first, second, third] = keysOf(table);
    return { inputs: turned(first, N, dim), outputs: turned(second, M, dim), ...laws(table, 'uniform', third), d: dim, k: dim };
  },
  one_hot(table) {
    const { num_tokens: N, num_classes: M } = table, dim = Math.max(N, M);
    return { inputs: canonical(N, dim), outputs: canonical(M, dim), ...laws(table, 'uniform', keyOf(table.seed ?? 0)), d: dim, k: dim };
  },
  sphere: (table) => drawn(table, (key, count, dim) => {
    const rows = gaussian(key, count, dim);
    for (let x = 0; x < count; x++) {
      const row = rows.subarray(x * dim, (x + 1) * dim), size = Math.sqrt(row.reduce((sum, value) => sum + value * value, 0));
      for (let i = 0; i < dim; i++) row[i] /= size;
    }
    return rows;
  }),
  gaussian: (table) => drawn(table, gaussian),
};

const keysOf = ({ seed = 0 }) => split(keyOf(seed), 3);

function drawn(table, rows) {
  const { num_tokens: N, num_classes: M, dim } = table, [first, second, third] = keysOf(table);
  return { inputs: rows(first, N, dim), outputs: rows(second, M, dim), ...laws(table, 'zipf', third), d: dim, k: dim };
}

const gaussian = (key, count, dim) => normals(key, count * dim).map((value) => value * (1 / Math.sqrt(dim)));

function canonical(count, dim) {
  const rows = new Float64Array(count * dim);
  for (let x = 0; x < count; x++) rows[x * dim + x] = 1;
  return rows;
}

// Orthonormal rows, drawn uniformly: the orthonormalised columns of normal numbers.
function turned(key, count, dim) {
  const columns = orthonormalised(gaussian(key, dim, count), dim, count), rows = new Float64Array(count * dim);
  for (let i = 0; i < dim; i++) for (let x = 0; x < count; x++) rows[x * dim + i] = columns[i * count + x];
  return rows;
}

function laws({ num_tokens: N, num_classes: M, probs, exponent, targets = 'mod' }, usual, key) {
  const law = probs ?? (exponent == null ? usual : 'zipf');
  return { probs: typeof law === 'string' ? frequencies(law, N, exponent ?? 1) : law, labels: labelsOf(targets, N, M, key) };
}

function frequencies(law, N, exponent) {
  if (law === 'uniform') return new Array(N).fill(1 / N);
  const logs = Array.from({ length: N }, (_, x) => -exponent * Math.log(x + 1)), top = Math.max(...logs);
  const weights = logs.map((log) => Math.exp(log - top)), total = weights.reduce((a, b) => a + b, 0);
  return weights.map((weight) => weight / total);
}

function labelsOf(targets, N, M, key) {
  if (targets === 'random') return integers(key, N, M);
  return typeof targets === 'string' ? Array.from({ length: N }, (_, x) => (targets === 'mod' ? x % M : x)) : targets;
}

// --- the span of the updates: where W can move ---

// Orthonormal columns B, (k, r), of the outputs' differences, and A, (d, s), of the inputs that occur.
export function spanOf(problem) {
  if (problem.span) return problem.span;
  const { N, M, d, k, inputs, outputs, probs } = problem, differences = new Float64Array((M - 1) * k), rows = [];
  for (let y = 1; y < M; y++) for (let i = 0; i < k; i++) differences[(y - 1) * k + i] = outputs[y * k + i] - outputs[i];
  for (let x = 0; x < N; x++) if (probs[x] > 0) rows.push(...inputs.subarray(x * d, (x + 1) * d));
  const left = basisOf(differences, M - 1, k), right = basisOf(Float64Array.from(rows), rows.length / d, d);
  problem.span = { B: left.basis, r: left.rank, A: right.basis, s: right.rank };
  return problem.span;
}

// The difference of the two outputs, of a problem with two.
export const gapOf = ({ outputs, k }) => Float64Array.from({ length: k }, (_, i) => outputs[i] - outputs[k + i]);

// Whether two coordinates are all that the loss depends on.
export const hasPlane = (problem) => problem.d === 2 && problem.M === 2 && gapOf(problem).some((value) => value !== 0);
