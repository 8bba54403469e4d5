// What the page draws of a problem: its plane with level lines and sectors, its minimiser, its tokens.

import { SAME_ANGLE, arrowsOf, calibrationOf, turnsOf } from './capacity.js';
import { contour } from './contours.js';
import { gapOf, hasPlane, spanOf } from './problems.js';
import { largestOfTwo } from './sharpness.js';

const GRID = 81; // points per axis of the level lines
const ARROWS = 15; // per axis of the gradient field
const MOST_LEVELS = 14;
const FEW_LEVELS = 5; // of one digit; with fewer, levels are evenly spaced

export function planePart({ view }, problem) {
  const { N, M, d, k, names, probs, labels } = problem;
  const about = { sizes: [N, M, d], output_dim: k, has_plane: hasPlane(problem), names };
  const arrays = { probs: shaped(probs, N), targets: shaped(labels, N) };
  if (about.has_plane) {
    const arrows = arrowsOf(problem);
    Object.assign(arrays, levels(problem, arrows, view), sectors(problem, arrows), { arrows: shaped(arrows, N, 2) });
    marks(problem, about, arrays);
  }
  return [about, arrays];
}

const shaped = (values, ...shape) => Object.assign(Float64Array.from(values), { shape });

// --- level lines ---

const axis = (low, high) => Float64Array.from({ length: GRID }, (_, k) => (k === GRID - 1 ? high : low + k * ((high - low) / (GRID - 1))));

function levels(problem, arrows, view) {
  const xs = axis(view.x - view.half, view.x + view.half), ys = axis(view.y - view.half, view.y + view.half);
  const isSharp = view.overlay === 'sharpness', over = (isSharp ? sharpness : losses)(problem, arrows, xs, ys);
  let low = Infinity, high = -Infinity;
  for (const value of over) { if (value < low) low = value; if (value > high) high = value; }
  const points = [], offsets = [0], values = [];
  for (const level of roundLevels(low, high)) for (const line of contour(over, xs, ys, level)) {
    for (const number of line) points.push(number);
    offsets.push(points.length / 2);
    values.push(level);
  }
  const arrays = { level_points: shaped(points, points.length / 2, 2), level_offsets: shaped(offsets, offsets.length), level_values: shaped(values, values.length) };
  if (isSharp) arrays.sharpness_grid = Object.assign(over, { shape: [GRID, GRID] });
  if (view.overlay === 'gradient') Object.assign(arrays, field(problem, arrows, view));
  return arrays;
}

function losses({ N, probs }, arrows, xs, ys) {
  const out = new Float64Array(xs.length * ys.length);
  for (let x = 0; x < N; x++) {
    const e = arrows[2 * x], f = arrows[2 * x + 1], p = probs[x];
    let at = 0;
    for (const y of ys) for (const value of xs) {
      const m = value * e + y * f;
      out[at++] += p * (Math.log1p(Math.exp(-Math.abs(m))) + (m < 0 ? -m : 0));
    }
  }
  return out;
}

// Contrast times the largest eigenvalue of sum p q (1 - q) e e^T.
function sharpness(problem, arrows, xs, ys) {
  const { N, probs } = problem, out = new Float64Array(xs.length * ys.length), contrast = gapOf(problem).reduce((sum, value) => sum + value * value, 0);
  let at = 0;
  for (const y of ys) for (const value of xs) {
    let a = 0, b = 0, c = 0;
    for (let x = 0; x < N; x++) {
      const e = arrows[2 * x], f = arrows[2 * x + 1], less = Math.exp(-Math.abs(value * e + y * f)), weight = probs[x] * (less / ((1 + less) * (1 + less)));
      a += weight * e * e;
      b += weight * e * f;
      c += weight * f * f;
    }
    out[at++] = contrast * largestOfTwo(a, b, c);
  }
  return out;
}

// Minus the gradient in the plane's coordinates, as descent on W moves them, at the cells' middles.
function field(problem, arrows, { x: x0, y: y0, half }) {
  const { N, probs } = problem, contrast = gapOf(problem).reduce((sum, value) => sum + value * value, 0), points = [], out = [];
  const middles = (low, high) => Array.from({ length: ARROWS }, (_, k) => ((k + 0.5) / ARROWS) * (high - low) + low);
  for (const y of middles(y0 - half, y0 + half)) for (const x of middles(x0 - half, x0 + half)) {
    let u = 0, v = 0;
    for (let token = 0; token < N; token++) {
      const e = arrows[2 * token], f = arrows[2 * token + 1], m = x * e + y * f, less = Math.exp(-Math.abs(m));
      const wrong = probs[token] * ((m > 0 ? less : 1) / (1 + less));
      u += wrong * e;
      v += wrong * f;
    }
    points.push(x, y);
    out.push(contrast * u, contrast * v);
  }
  return { field_points: shaped(points, points.length / 2, 2), field: shaped(out, out.length / 2, 2) };
}

// Round numbers between two values: the same for nearby planes, so that lines do not flicker.
export function roundLevels(low, high) {
  if (!(low >= 0 && low < high)) return [];
  const decades = Math.log10(high / Math.max(low, 1e-12 * high)), most = Math.floor(Math.log10(high)), every = [];
  const digits = decades < 1.1 ? [1, 2, 3, 4, 5, 6, 7, 8, 9] : decades < 2.3 ? [1, 2, 3, 5, 7] : [1, 2, 5];
  for (let k = most - 12; k <= most; k++) for (const digit of digits) every.push(Number(`${digit}e${k}`));
  const inside = every.filter((level) => low < level && level < high);
  return inside.length >= FEW_LEVELS ? inside.slice(-MOST_LEVELS) : evenLevels(low, high);
}

// Multiples of a round step between two close values.
function evenLevels(low, high) {
  const raw = (high - low) / FEW_LEVELS, power = 10 ** Math.floor(Math.log10(raw)), step = Math.max(...[1, 2, 5].map((k) => k * power).filter((size) => size <= raw));
  const out = [];
  for (let k = Math.trunc(low / step); k <= Math.trunc(high / step); k++) out.push(Number((k * step).toPrecision(12)));
  return out.filter((level) => low < level && level < high).slice(0, MOST_LEVELS);
}

// --- sectors and marks ---

function sectors({ N, probs, labels }, arrows) {
  const rows = Array.from({ length: N }, (_, x) => [arrows[2 * x], arrows[2 * x + 1]]);
  let turns = turnsOf(rows).filter((turn, k, all) => k === 0 || turn - all[k - 1] > SAME_ANGLE);
  if (turns.length > 1 && turns[0] + 2 * Math.PI - turns.at(-1) <= SAME_ANGLE) turns = turns.slice(0, -1);
  const begin = turns.length ? turns : [0], end = [...begin.slice(1), begin[0] + 2 * Math.PI];
  const error = begin.map((from, k) => {
    const middle = (from + end[k]) / 2, a = Math.cos(middle), b = Math.sin(middle);
    // A token that W cannot reach scores zero for both classes, and the tie goes to the first.
    const isRight = ([e, f], x) => a * e + b * f > 0 || (e === 0 && f === 0 && labels[x] === 0);
    return rows.reduce((sum, row, x) => sum + (isRight(row, x) ? 0 : probs[x]), 0);
  });
  return { sector_begin: shaped(begin, begin.length), sector_end: shaped(end, end.length), sector_error: shaped(error, error.length) };
}

// Where the loss is least, the max-margin direction, and what the minimiser costs in errors.
function marks(problem, about, arrays) {
  const best = calibrationOf(problem);
  Object.assign(about, {
    minimiser_exists: best.exists, least_loss: best.loss, error_at_minimiser: best.error, least_error: best.leastError,
    forgotten: best.forgotten, sharpness_at_minimiser: null, is_separable: best.isSeparable,
  });
  if (best.exists) {
    const [x, y] = best.minimiser;
    about.sharpness_at_minimiser = spanOf(problem).s ? sharpness(problem, arrowsOf(problem), [x], [y])[0] : 0;
    arrays.minimiser = shaped(best.minimiser, 2);
  } else arrays[best.isSeparable ? 'max_margin' : 'falls_along'] = shaped(best.direction, 2);
}
