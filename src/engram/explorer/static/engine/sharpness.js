// The largest eigenvalue of the Hessian: exact where W moves in two directions at most, else by Lanczos.

import { largestEigenvalue, times, transposedTimes } from './linear.js';
import { gapOf, spanOf } from './problems.js';
import { keyOf, normals } from './random.js';
import { Readout, gradientOf, scoresOf } from './systems.js';

const WORK = 3e7; // cubes of the Hessian's size, in all, that are worth a request's time

// At how many records of a run.
export function most(problem) {
  const { r, s } = spanOf(problem);
  return Math.max(8, Math.floor(WORK / Math.max(r * s, 1) ** 3));
}

export const largestOfTwo = (a, b, c) => (a + c) / 2 + Math.hypot((a - c) / 2, b); // of [[a, b], [b, c]]

export function sharpnessOf(problem, W) {
  const tools = toolsOf(problem), { scores, readout } = tools;
  scoresOf(problem, W, scores);
  if (scores.some((score) => !Number.isFinite(score))) return NaN;
  readout.see(scores);
  return tools.largest();
}

// The same with how its direction moves the margins of tokens, the largest scaled to 1; null if nothing moves.
// Of equal eigenvalues it is the direction nearest to the library's random one, and of equal rivals the mean.
export function sharpestOf(problem, W) {
  const { M, d, k, labels } = problem, { A, s, B, r } = spanOf(problem), value = sharpnessOf(problem, W), { readout, small, apply } = toolsOf(problem);
  const begin = transposedTimes(B, times(normals(keyOf(0), k * d), A, k, s, d), r, s, k), along = new Float64Array(r * s), change = new Float64Array(labels.length * M);
  largestEigenvalue(apply, r * s, begin, along);
  scoresOf(small, along, change);
  const moved = Array.from(labels, (own, x) => change[x * M + own] - readout.ofRivals(x, change));
  const largest = moved.reduce((top, each) => (Math.abs(each) > Math.abs(top) ? each : top), 0);
  return { value, direction: Number.isFinite(largest) && largest !== 0 ? moved.map((each) => each / largest) : null };
}

const toolsOf = (problem) => (problem.curvature ??= makeTools(problem));

function makeTools(problem) {
  const { N, M, d, k, inputs, outputs, probs } = problem, { B, r, A, s } = spanOf(problem), n = r * s;
  const readout = new Readout(problem), scores = new Float64Array(N * M), E = times(inputs, A, N, s, d);
  // The same problem in coordinates of the span.
  const small = { N, M, d: s, k: r, inputs: E, outputs: times(outputs, B, M, r, k) };
  const change = new Float64Array(N * M), bent = new Float64Array(N * M);
  const apply = (v, out) => {
    scoresOf(small, v, change);
    readout.bent(change, bent);
    gradientOf(small, bent, out);
  };
  const contrast = M === 2 ? gapOf(problem).reduce((sum, value) => sum + value * value, 0) : NaN, isPlane = M === 2 && s <= 2;
  const begin = isPlane ? null : normals(keyOf(0), n);
  const largest = isPlane ? () => (n ? contrast * inPlane(N, s, E, probs, readout) : 0) : () => largestEigenvalue(apply, n, begin);
  return { scores, readout, small, apply, largest };
}

// Of sum p q (1 - q) e e^T.
function inPlane(N, s, E, probs, { mass, wrong, labels }) {
  let a = 0, b = 0, c = 0;
  for (let x = 0; x < N; x++) {
    const right = mass[2 * x + labels[x]], total = wrong[x] + right, weight = probs[x] * (wrong[x] / total) * (right / total);
    const e = E[s * x], f = s > 1 ? E[s * x + 1] : 0;
    a += weight * e * e;
    b += weight * e * f;
    c += weight * f * f;
  }
  return s > 1 ? largestOfTwo(a, b, c) : a;
}
