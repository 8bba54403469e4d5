// Of a problem in the plane: where the loss is least, the max-margin direction, the fewest errors.

import { times, timesTransposed } from './linear.js';
import { spanOf } from './problems.js';
import { largestOfTwo } from './sharpness.js';

const SAME_ANGLE = 1e-12; // tokens closer than this are opposite up to rounding
const MAX_STEPS = 200;

// Where each token's margin grows in the plane, (N, 2), what is out of reach left out.
export function arrowsOf({ N, inputs, labels }) {
  return inputs.map((value, i) => (labels[Math.floor(i / 2)] === 0 ? value : -value)).subarray(0, 2 * N);
}

export function calibrationOf(problem) {
  const { N, d, inputs, labels, probs } = problem, { A, s } = spanOf(problem), within = times(inputs, A, N, s, d), tokens = [];
  for (let x = 0; x < N; x++) if (probs[x] > 0) tokens.push({ x, p: probs[x], z: Array.from(within.subarray(s * x, s * (x + 1)), (value) => (labels[x] === 0 ? value : -value)) });
  const back = (v) => (v === null ? null : timesTransposed(Float64Array.from(v), A, 1, d, s)), { growing, direction } = recession(tokens, s);
  const left = tokens.filter((_, k) => !growing[k]), point = minimise(left, s);
  const far = tokens.map(({ z }) => (direction ? along(z, direction) : 0)), top = Math.max(0, ...far.map(Math.abs));
  const margin = (token, k) => (Math.abs(far[k]) > 1e-9 * top ? far[k] : along(token.z, point));
  const forgotten = tokens.filter((token, k) => !(margin(token, k) > 0));
  return {
    exists: direction === null,
    minimiser: back(point),
    direction: back(direction),
    isSeparable: direction !== null && far.every((value) => value > 1e-9 * top),
    loss: left.reduce((sum, { p, z }) => sum + p * softplus(-along(z, point)), 0),
    error: forgotten.reduce((sum, { p }) => sum + p, 0),
    forgotten: forgotten.map(({ x }) => x),
    leastError: leastError(tokens, s),
  };
}

const along = (z, v) => z.reduce((sum, value, i) => sum + value * v[i], 0);
const softplus = (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));
const sizeOf = (v) => Math.hypot(...v);

// Which margins can grow while none falls, and the unit direction that does it, the max-margin one if all can.
function recession(tokens, s) {
  const none = { growing: tokens.map(() => false), direction: null }, moving = tokens.filter(({ z }) => sizeOf(z) > 0);
  if (!moving.length) return none;
  let direction = null;
  if (s === 1) {
    const signs = new Set(moving.map(({ z }) => Math.sign(z[0])));
    if (signs.size > 1) return none;
    direction = [...signs];
  } else {
    const angles = moving.map(({ z }) => Math.atan2(z[1], z[0])).sort((a, b) => a - b);
    let gap = -1, from = 0;
    angles.forEach((angle, k) => {
      const width = (k + 1 < angles.length ? angles[k + 1] : angles[0] + 2 * Math.PI) - angle;
      if (width > gap) { gap = width; from = angle; }
    });
    if (gap < Math.PI - SAME_ANGLE) return none;
    const middle = from + gap / 2 + Math.PI; // opposite to the middle of the gap
    direction = (gap > Math.PI + SAME_ANGLE && maxMargin(moving)) || [Math.cos(middle), Math.sin(middle)];
  }
  const size = sizeOf(direction), unit = direction.map((value) => value / size);
  const grown = tokens.map(({ z }) => along(z, unit)), top = Math.max(...grown);
  return { growing: grown.map((value) => value > SAME_ANGLE * top), direction: unit };
}

// The shortest v with z v >= 1 for all tokens: one or two of them hold it.
function maxMargin(tokens) {
  let best = null, length = Infinity;
  const offer = (v) => {
    const size = sizeOf(v);
    if (!(size < length) || tokens.some(({ z }) => along(z, v) < 1 - 1e-9)) return;
    best = v;
    length = size;
  };
  tokens.forEach(({ z: a }, i) => {
    const square = along(a, a);
    offer([a[0] / square, a[1] / square]);
    for (const { z: b } of tokens.slice(i + 1)) {
      const area = a[0] * b[1] - a[1] * b[0];
      if (area !== 0) offer([(b[1] - a[1]) / area, (a[0] - b[0]) / area]);
    }
  });
  return best;
}

// Damped Newton from zero; of several minimisers the one of smallest norm.
function minimise(tokens, s) {
  let v = new Array(s).fill(0);
  const lossAt = (w) => tokens.reduce((sum, { p, z }) => sum + p * softplus(-along(z, w)), 0);
  if (!tokens.length) return v;
  let now = lossAt(v);
  for (let step = 0; step < MAX_STEPS; step++) {
    const grad = new Array(s).fill(0);
    let a = 0, b = 0, c = 0;
    for (const { p, z } of tokens) {
      const m = along(z, v), e = Math.exp(-Math.abs(m)), wrong = (m > 0 ? e : 1) / (1 + e), right = (m > 0 ? 1 : e) / (1 + e);
      for (let i = 0; i < s; i++) grad[i] -= p * wrong * z[i];
      a += p * wrong * right * z[0] * z[0];
      b += p * wrong * right * z[0] * (z[1] ?? 0);
      c += p * wrong * right * (z[1] ?? 0) * (z[1] ?? 0);
    }
    const move = solve(a, b, c, grad), decrement = Math.sqrt(Math.max(-along(grad, move), 0));
    if (decrement < 1e-14) break;
    let size = 1, ahead;
    for (;;) {
      ahead = v.map((value, i) => value + size * move[i]);
      const loss = lossAt(ahead);
      if (!(loss > now + 1e-15 * now && size > 1e-12)) { now = loss; break; }
      size /= 2;
    }
    const moved = Math.max(...move.map((value) => Math.abs(size * value)));
    v = ahead;
    if (moved <= 1e-15 * Math.max(1, ...v.map(Math.abs))) break;
  }
  return v;
}

// -H^+ g of the matrix [[a, b], [b, c]], or of the number a.
function solve(a, b, c, g) {
  if (g.length === 1) return [a > 0 ? -g[0] / a : 0];
  const top = largestOfTwo(a, b, c), other = top > 0 ? (a * c - b * b) / top : 0;
  if (!(top > 0)) return [0, 0];
  if (other > 1e-13 * top) { const area = a * c - b * b; return [-(c * g[0] - b * g[1]) / area, -(a * g[1] - b * g[0]) / area]; }
  const first = Math.abs(top - a) > Math.abs(top - c) ? [b, top - a] : [top - c, b], size = sizeOf(first) || 1;
  const unit = sizeOf(first) > 0 ? first.map((value) => value / size) : [1, 0], share = -along(g, unit) / top;
  return unit.map((value) => value * share);
}

// The fewest errors of any direction, a margin of zero counting as one.
function leastError(tokens, s) {
  const total = (kept) => kept.reduce((sum, { p }) => sum + p, 0), wrongOf = (v) => tokens.filter(({ z }) => along(z, v) <= 1e-15 * reach);
  const reach = Math.max(0, ...tokens.flatMap(({ z }) => z.map(Math.abs)));
  if (s === 0) return total(tokens);
  if (s === 1) return Math.min(total(wrongOf([1])), total(wrongOf([-1])));
  const turns = turnsOf(tokens.map(({ z }) => z)), ends = [...turns.slice(1), turns[0] + 2 * Math.PI];
  let least = Infinity;
  turns.forEach((turn, k) => {
    if (ends[k] - turn <= SAME_ANGLE) return;
    const middle = (turn + ends[k]) / 2;
    least = Math.min(least, total(wrongOf([Math.cos(middle), Math.sin(middle)])));
  });
  return least;
}

// The directions at which margins change their sign, counter-clockwise in [0, 2 pi).
export function turnsOf(arrows) {
  const around = (angle) => ((angle % (2 * Math.PI)) + 2 * Math.PI) % (2 * Math.PI);
  const angles = arrows.filter((z) => sizeOf(z) > 0).map((z) => Math.atan2(z[1], z[0]));
  return [...angles.map((angle) => around(angle - Math.PI / 2)), ...angles.map((angle) => around(angle + Math.PI / 2))].sort((a, b) => a - b);
}
export { SAME_ANGLE };
