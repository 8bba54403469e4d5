// The largest eigenvalue of the Hessian: exact where W moves in two directions at most, else by Lanczos.

import { largestEigenvalue, times } from './linear.js';
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
  const tools = (problem.curvature ??= makeTools(problem)), { scores, readout } = tools;
  scoresOf(problem, W, scores);
  if (scores.some((score) => !Number.isFinite(score))) return NaN;
  readout.see(scores);
  return tools.largest();
}

function makeTools(problem) {
  const { N, M, d, k, inputs, outputs, probs } = problem, { B, r, A, s } = spanOf(problem), n = r * s;
  const readout = new Readout(problem), scores = new Float64Array(N * M), E = times(inputs, A, N, s, d);
  if (M === 2 && s <= 2) {
    const contrast = gapOf(problem).reduce((sum, value) => sum + value * value, 0);
    return { scores, readout, largest: () => (n ? contrast * inPlane(N, s, E, probs, readout) : 0) };
  }
  // The same problem in coordinates of the span.
  const small = { N, M, d: s, k: r, inputs: E, outputs: times(outputs, B, M, r, k) };
  const change = new Float64Array(N * M), bent = new Float64Array(N * M), begin = normals(keyOf(0), n);
  const apply = (v, out) => {
    scoresOf(small, v, change);
    readout.bent(change, bent);
    gradientOf(small, bent, out);
  };
  return { scores, readout, largest: () => largestEigenvalue(apply, n, begin) };
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
