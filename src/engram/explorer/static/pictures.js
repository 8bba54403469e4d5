// The pictures: a plane, and traces over the steps. They draw with any pen and know no controls.

import { FRAME, RUNS, SHAPES, accuracyColour, axis, frame, mark, number, sharpnessColour, tokenColour } from './looks.js';
import { Places } from './places.js';

export const MARKS = { spike: '▲', forgotten: '✕', relearnt: '↺', perfect: '✓' };

// The last record at or before a step.
export function recordAt(run, step) {
  const when = run.step;
  let low = 0, high = when.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (when[middle] <= step + 1e-9) low = middle; else high = middle - 1;
  }
  return low;
}

// A square, so that angles are what they are.
export function planeRoom(w, h) {
  const { top } = FRAME, room = w - FRAME.left - FRAME.right, side = Math.max(Math.min(room, h - top - FRAME.bottom), 1);
  const left = FRAME.left + Math.max(room - side, 0) / 2;
  return { left, right: w - left - side, top, bottom: h - top - side };
}

export function planeAxes(view, w, h) {
  const { left, right, top, bottom } = planeRoom(w, h);
  return {
    x: axis('linear', view.x - view.half, view.x + view.half, left, w - right),
    y: axis('linear', view.y - view.half, view.y + view.half, h - bottom, top),
  };
}

export function drawPlane(pen, w, h, data) {
  const { plane, state } = data, { x, y } = planeAxes(state.view, w, h);
  const room = planeRoom(w, h), { left, right, top, bottom } = room, [iw, ih] = [w - left - right, h - top - bottom];
  pen.clip(left, top, iw, ih, () => {
    if (state.view.overlay === 'sharpness') drawSharpness(pen, plane, left, top, iw, ih);
    else drawSectors(pen, plane, x, y);
    const levels = drawLevels(pen, plane, x, y);
    if (plane.field) drawField(pen, plane, x, y, iw);
    pen.line([x(0), top, x(0), h - bottom], { stroke: '#777', width: 0.7 });
    pen.line([left, y(0), w - right, y(0)], { stroke: '#777', width: 0.7 });
    drawDirection(pen, plane, x, y, state.view);
    data.runs.forEach((run, k) => drawPath(pen, run, k, x, y, 0.4, run.step.length));
    const places = placesIn(data, x, y, left, top, w - right, h - bottom);
    if (state.view.overlay !== 'sharpness') nameSectors(pen, plane, x, y, state.view, places);
    nameLevels(pen, levels, places);
    if (plane.minimiser) drawStar(pen, x(plane.minimiser[0]), y(plane.minimiser[1]));
  });
  frame(pen, w, h, x, y, { room, grid: false });
  pen.text('γ₁', w - right, h - bottom - 5, { align: 'right', size: 12, halo: '#fff' });
  pen.text('γ₂', left + 5, top + 11, { size: 12, halo: '#fff' });
}

export function drawPlaneCursor(pen, w, h, data, step) {
  const { x, y } = planeAxes(data.state.view, w, h), { left, right, top, bottom } = planeRoom(w, h);
  pen.clip(left, top, w - left - right, h - top - bottom, () => {
    data.runs.forEach((run, k) => {
      const at = recordAt(run, step);
      drawPath(pen, run, k, x, y, 1, at + 1);
      mark(pen, SHAPES[k], x(run.path[2 * at]), y(run.path[2 * at + 1]), 6, { fill: RUNS[k], stroke: '#fff', width: 2 });
    });
  });
}

function drawPath(pen, run, k, x, y, alpha, count) {
  const points = inPixels(run.path, x, y, count);
  if (alpha === 1) pen.line(points, { stroke: '#fff', width: 3.4, alpha: 0.8 });
  pen.line(points, { stroke: RUNS[k], width: 1.6, alpha });
  if (count <= 120) for (let i = 0; i < count; i++) mark(pen, SHAPES[k], points[2 * i], points[2 * i + 1], 2.3, { fill: RUNS[k], alpha });
}

function drawSectors(pen, plane, x, y) {
  // Far enough out to cover any view: sectors are cones with their tip at zero.
  const far = 4 * Math.max(...[...x.range, ...y.range].map(Math.abs));
  for (let k = 0; k < plane.sector_begin.length; k++) {
    const begin = plane.sector_begin[k], end = plane.sector_end[k], corners = [x(0), y(0)];
    const pieces = Math.max(1, Math.ceil((end - begin) / 0.5));
    for (let i = 0; i <= pieces; i++) {
      const angle = begin + (i / pieces) * (end - begin);
      corners.push(x(far * Math.cos(angle)), y(far * Math.sin(angle)));
    }
    pen.area(corners, { fill: accuracyColour(1 - plane.sector_error[k]) });
    for (const angle of [begin, end]) pen.line([x(0), y(0), x(far * Math.cos(angle)), y(far * Math.sin(angle))], { stroke: '#5d7f9e', width: 0.8 });
  }
}

// The 0-1 loss of each sector, where few sectors leave room for it: far out, in the middle if that is free.
function nameSectors(pen, plane, x, y, view, places) {
  if (plane.sector_begin.length > 8) return;
  const most = 1.5 * view.half + Math.hypot(view.x, view.y);
  for (let k = 0; k < plane.sector_begin.length; k++) {
    const from = plane.sector_begin[k], wide = plane.sector_end[k] - from, words = `error ${number(plane.sector_error[k], 3)}`, spots = [];
    for (let out = 0.9; out > 0.1; out -= 0.05) {
      for (const part of [0.5, 0.35, 0.65, 0.2, 0.8]) spots.push([x(out * most * Math.cos(from + part * wide)), y(out * most * Math.sin(from + part * wide))]);
    }
    const spot = places.first(spots, 3.6 * words.length, 8);
    if (spot) pen.text(words, ...spot, { size: 11, bold: true, align: 'center', base: 'middle', fill: '#003a5d', halo: 'rgba(255,255,255,.9)' });
  }
}

function drawLevels(pen, plane, x, y) {
  const { level_offsets: offsets, level_points: points, level_values: values } = plane;
  return Array.from(values, (value, k) => {
    const from = offsets[k], to = offsets[k + 1], line = new Float64Array(2 * (to - from));
    for (let i = from; i < to; i++) { line[2 * (i - from)] = x(points[2 * i]); line[2 * (i - from) + 1] = y(points[2 * i + 1]); }
    pen.line(line, { stroke: '#4a4a4a', width: 0.8, alpha: 0.75 });
    return [value, line];
  });
}

// The numbers of the lines, where nothing else is.
function nameLevels(pen, levels, places) {
  for (const [value, line] of levels) {
    const count = line.length / 2, words = number(value, 3);
    if (count < 12) continue;
    const spots = [0.5, 0.25, 0.75, 0.38, 0.62, 0.13, 0.87].map((s) => { const i = 2 * Math.floor(s * (count - 1)); return [line[i], line[i + 1]]; });
    const spot = places.first(spots, 3.2 * words.length + 3, 8);
    if (spot) pen.text(words, ...spot, { size: 10, align: 'center', base: 'middle', fill: '#222', halo: 'rgba(255,255,255,.85)' });
  }
}

// What words must not cover: paths, the ray, the start, the star and the names of the axes.
function placesIn(data, x, y, left, top, right, bottom) {
  const places = new Places(left, top, right, bottom), { plane, state } = data, ray = plane.max_margin ?? plane.falls_along, far = 4 * (state.view.half + Math.hypot(state.view.x, state.view.y));
  for (const run of data.runs) places.line(inPixels(run.path, x, y, run.step.length));
  if (ray) places.line([x(0), y(0), x(far * ray[0]), y(far * ray[1])]);
  for (const [a, b] of [[state.start.a, state.start.b], ...(plane.minimiser ? [plane.minimiser] : [])]) places.box(x(a), y(b), 15, 15, true);
  places.box(right - 13, bottom - 11, 12, 10, true);
  places.box(left + 14, top + 11, 12, 10, true);
  return places;
}

function inPixels(path, x, y, count) {
  const points = new Float64Array(2 * count);
  for (let i = 0; i < count; i++) { points[2 * i] = x(path[2 * i]); points[2 * i + 1] = y(path[2 * i + 1]); }
  return points;
}

let shaded = { values: null, picture: null };

function drawSharpness(pen, plane, left, top, w, h) {
  if (shaded.values !== plane.sharpness_grid) {
    const [rows, columns] = plane.sharpness_grid.shape, picture = document.createElement('canvas');
    [picture.width, picture.height] = [columns, rows];
    const context = picture.getContext('2d'), pixels = context.createImageData(columns, rows);
    const logs = Array.from(plane.sharpness_grid, (v) => Math.log(Math.max(v, 1e-12)));
    const high = logs.reduce((a, b) => Math.max(a, b)), low = Math.max(logs.reduce((a, b) => Math.min(a, b)), high - 9);
    for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) {
      const colour = sharpnessColour((logs[i * columns + j] - low) / (high - low || 1)), at = 4 * ((rows - 1 - i) * columns + j);
      [pixels.data[at], pixels.data[at + 1], pixels.data[at + 2], pixels.data[at + 3]] = [...colour, 255];
    }
    context.putImageData(pixels, 0, 0);
    shaded = { values: plane.sharpness_grid, picture };
  }
  pen.image(shaded.picture, left, top, w, h);
}

function drawField(pen, plane, x, y, w) {
  const most = w / 15 * 0.8, sizes = [];
  for (let k = 0; k < plane.field.length; k += 2) sizes.push(Math.hypot(plane.field[k], plane.field[k + 1]));
  const largest = Math.max(...sizes, 1e-300);
  sizes.forEach((size, k) => {
    if (!(size > 0)) return;
    // Lengths by the fourth root, so that weak pulls are seen too; directions are exact.
    const length = most * (size / largest) ** 0.25, dx = (plane.field[2 * k] / size) * length, dy = -(plane.field[2 * k + 1] / size) * length;
    const px = x(plane.field_points[2 * k]) - dx / 2, py = y(plane.field_points[2 * k + 1]) - dy / 2;
    const [hx, hy] = [px + dx, py + dy], back = [0.3 * dx, 0.3 * dy], side = [-0.16 * dy, 0.16 * dx];
    pen.line([px, py, hx, hy], { stroke: '#3d3d3d', width: 1 });
    pen.area([hx, hy, hx - back[0] + side[0], hy - back[1] + side[1], hx - back[0] - side[0], hy - back[1] - side[1]], { fill: '#3d3d3d' });
  });
}

function drawDirection(pen, plane, x, y, view) {
  const ray = plane.max_margin ?? plane.falls_along;
  if (!ray) return;
  const far = 4 * (view.half + Math.hypot(view.x, view.y)), [dx, dy] = ray;
  pen.line([x(0), y(0), x(far * dx), y(far * dy)], { stroke: '#fff', width: 4, alpha: 0.7 });
  pen.line([x(0), y(0), x(far * dx), y(far * dy)], { stroke: '#000', width: 1.6, dash: plane.max_margin ? [7, 5] : [2, 4] });
}

function drawStar(pen, x, y) {
  const points = [];
  for (let k = 0; k < 10; k++) {
    const angle = -Math.PI / 2 + (k * Math.PI) / 5, r = k % 2 ? 4 : 9.5;
    points.push(x + r * Math.cos(angle), y + r * Math.sin(angle));
  }
  pen.area(points, { fill: '#FFD23F', stroke: '#000', width: 1.2 });
}

// --- traces ---

const spread = (values, low, high) => {
  for (const v of values) if (Number.isFinite(v)) { if (v < low) low = v; if (v > high) high = v; }
  return [low, high];
};

export function stepAxis(data, w) {
  return axis(data.state.show.axis === 'log' ? 'log1p' : 'linear', 0, data.state.steps, FRAME.left, w - FRAME.right);
}

function valueAxis(kind, series, h, { floor = null, top = FRAME.top } = {}) {
  let [low, high] = [Infinity, -Infinity];
  for (const values of series) [low, high] = spread(kind === 'log' ? values.filter((v) => v > 0) : values, low, high);
  if (!Number.isFinite(low)) [low, high] = [0.1, 1];
  if (floor !== null) low = Math.min(low, floor);
  if (kind === 'log') { low = Math.max(low, high * 1e-14); if (high / low < 1.2) { low /= 1.1; high *= 1.1; } [low, high] = [low / 1.15, high * 1.3]; }
  else { const pad = 0.06 * (high - low || Math.abs(high) || 1); [low, high] = [floor === low ? low : low - pad, high + pad]; }
  return axis(kind, low, high, h - FRAME.bottom, top);
}

function drawSeries(pen, run, x, y, values, style, stride = 1, offset = 0, when = run.step) {
  const points = new Float64Array(2 * when.length);
  for (let i = 0; i < when.length; i++) {
    const v = values[i * stride + offset];
    points[2 * i] = x(when[i]);
    points[2 * i + 1] = !y.isLog || v > 0 ? y(v) : v === 0 ? y(y.range[0]) : NaN;
  }
  pen.line(points, style);
}

// A logarithmic axis has no zero: it is drawn at the lower edge, and that is said.
function noteZeros(pen, w, h, series) {
  if (series.some((values) => values.includes(0))) pen.text('0 is drawn at the lower edge', w - FRAME.right, h - FRAME.bottom - 4, { size: 10, align: 'right', halo: '#fff' });
}

const look = (k) => ({ stroke: RUNS[k], width: 1.7 });

export const lossAxis = (data, h) => Object.assign(valueAxis(data.state.show.loss, data.runs.map((run) => run.loss), h, { top: FRAME.top + LANE * lanesOf(data).length }), { isLog: data.state.show.loss === 'log' });
export const errorAxis = (data, h) => axis('linear', 0, Math.max(0.05, ...data.runs.map((run) => spread(run.error ?? [], 0, 0)[1])) * 1.08, h - FRAME.bottom, FRAME.top);
export const sharpnessAxis = (data, h) => Object.assign(
  valueAxis('log', [...data.runs.map((run) => run.sharpness ?? []), ...data.runs.map((run) => run.thresholds.map(([, v]) => v))], h), { isLog: true });
// Above the lines of many tokens there is room for the key of their colours.
const topOf = (series) => FRAME.top + (series.some((values) => values.shape?.length === 2 && values.shape[1] > 8) ? 15 : 0);
const fanAxis = (series, h, floor = null) => valueAxis('linear', series, h, { floor, top: topOf(series) });
export const marginAxis = (runs, h) => fanAxis(runs.map((run) => run.margins ?? []), h, 0);
export const extraAxis = (data, h, name) => fanAxis(data.runs.map((run) => run[`record.${name}`] ?? []), h);

// What a system cannot tell is said where it would be drawn.
function sayUnknown(pen, w, h, runs, name) {
  const words = runs.map((run) => run.unknown[name]).find(Boolean);
  if (words) pen.text(words.length > 64 ? `${words.slice(0, 63)}…` : words, (FRAME.left + w - FRAME.right) / 2, h / 2, { size: 11, align: 'center', base: 'middle', fill: '#555', halo: '#fff' });
}

export function drawLoss(pen, w, h, data) {
  const x = stepAxis(data, w), y = lossAxis(data, h);
  frame(pen, w, h, x, y, { xLabel: 'step' });
  data.runs.forEach((run, k) => drawSeries(pen, run, x, y, run.loss, look(k)));
  if (y.isLog) noteZeros(pen, w, h, data.runs.map((run) => run.loss));
  lanesOf(data).forEach((k, lane) => markEvents(pen, data.runs[k].events, x, FRAME.top + LANE * (lane + 0.5), RUNS[k]));
}

// Events have a lane for each run that has some, above the losses. Marks that would overlap become one, with their number.
const LANE = 13;
const lanesOf = ({ runs }) => runs.flatMap((run, k) => (run.events.length ? [k] : []));
const WEIGHTS = ['relearnt', 'spike', 'forgotten', 'perfect']; // the last is shown where there are several

export function groupsOf(events, x, room = 15) {
  const groups = [];
  for (const event of [...events].sort((a, b) => a.step - b.step)) {
    const at = x(event.step), last = groups.at(-1);
    if (last && at - last.at < room + (last.events.length > 1 ? 8 : 0)) last.events.push(event); else groups.push({ at, events: [event] });
  }
  return groups;
}

function markEvents(pen, events, x, y, colour) {
  for (const { at, events: near } of groupsOf(events, x)) {
    const { kind } = near.reduce((a, b) => (WEIGHTS.indexOf(b.kind) > WEIGHTS.indexOf(a.kind) ? b : a));
    pen.text(MARKS[kind], at, y, { size: 11, align: 'center', base: 'middle', fill: colour, bold: true });
    if (near.length > 1) pen.text(String(near.length), at + 6, y - 2, { size: 8.5, base: 'middle', fill: colour });
  }
}

export function drawError(pen, w, h, data) {
  const x = stepAxis(data, w), y = errorAxis(data, h);
  frame(pen, w, h, x, y, { xLabel: 'step' });
  data.runs.forEach((run, k) => run.error && drawSeries(pen, run, x, y, run.error, look(k)));
  sayUnknown(pen, w, h, data.runs, 'error');
}

export function drawSharpnessTrace(pen, w, h, data) {
  const x = stepAxis(data, w), y = sharpnessAxis(data, h);
  frame(pen, w, h, x, y, { xLabel: 'step' });
  data.runs.forEach((run, k) => run.sharpness && drawSeries(pen, run, x, y, run.sharpness, look(k), 1, 0, run.sharpness_step));
  noteZeros(pen, w, h, data.runs.map((run) => run.sharpness ?? []));
  if (data.runs.some((run) => run.has_later)) pen.text('computing …', (FRAME.left + w - FRAME.right) / 2, h / 2, { size: 11, align: 'center', base: 'middle', fill: '#555', halo: '#fff' });
  sayUnknown(pen, w, h, data.runs, 'sharpness');
  data.runs.forEach((run, k) => run.thresholds.forEach(([from, v], i) => {
    const line = [x(from), y(v), x(run.thresholds[i + 1]?.[0] ?? data.state.steps), y(v)];
    pen.line(line, { stroke: '#fff', width: 4, alpha: 0.85 });
    pen.line(line, { stroke: RUNS[k], width: 1.4, dash: [5, 4] });
  }));
  if (data.plane.sharpness_at_minimiser && data.plane.sharpness_at_minimiser >= y.range[0] && data.plane.sharpness_at_minimiser <= y.range[1]) {
    const at = y(data.plane.sharpness_at_minimiser);
    pen.line([FRAME.left, at, w - FRAME.right, at], { stroke: '#fff', width: 4, alpha: 0.85 });
    pen.line([FRAME.left, at, w - FRAME.right, at], { stroke: '#333', width: 1.3, dash: [2, 3] });
    pen.text('at the minimiser', w - FRAME.right - 4, at - 3, { size: 10, align: 'right', halo: '#fff' });
  }
}

export function drawMargins(pen, w, h, data, k) {
  const run = data.runs[k], y = marginAxis([run], h);
  frame(pen, w, h, stepAxis(data, w), y, { xLabel: 'step' });
  pen.line([FRAME.left, y(0), w - FRAME.right, y(0)], { stroke: '#777', width: 1.6 });
  if (run.margins) drawFan(pen, w, data, run, y, run.margins);
  sayUnknown(pen, w, h, [run], 'margins');
}

// A number per run, or one per token of the run in focus.
export function drawExtra(pen, w, h, data, name) {
  const x = stepAxis(data, w), y = extraAxis(data, h, name), values = data.runs.map((run) => run[`record.${name}`]);
  frame(pen, w, h, x, y, { xLabel: 'step' });
  const focus = Math.min(data.state.show.focus, data.runs.length - 1);
  data.runs.forEach((run, k) => values[k]?.shape.length === 1 && drawSeries(pen, run, x, y, values[k], look(k)));
  if (values[focus]?.shape.length === 2) drawFan(pen, w, data, data.runs[focus], y, values[focus]);
  sayUnknown(pen, w, h, data.runs, name);
}

export function extraTitle(data, name) {
  const isFan = data.runs.some((run) => run[`record.${name}`]?.shape.length === 2), symbol = data.runs.map((run) => run.symbols[name]).find(Boolean);
  return `${name.replaceAll('_', ' ')}${symbol ? `, ${symbol}` : ''}${isFan ? ` of run ${Math.min(data.state.show.focus, data.runs.length - 1) + 1}` : ''}`;
}

function drawFan(pen, w, data, run, y, values) {
  const x = stepAxis(data, w), count = values.shape[1], { names } = data.plane, { follow } = data.state.show;
  const last = run.step.length - 1, labels = [], isFollowed = follow !== null && follow < count && names.length === count;
  const order = Array.from({ length: count }, (_, k) => count - 1 - k).filter((token) => !(isFollowed && token === follow));
  for (const token of isFollowed ? [...order, follow] : order) {
    const width = isFollowed && token === follow ? 3 : count > 8 ? 1.1 : 1.7;
    drawSeries(pen, run, x, y, values, { stroke: tokenColour(token, count), width, alpha: isFollowed && token !== follow ? 0.25 : 1 }, count, token);
    const py = y(values[last * count + token]);
    if ((count <= 8 || (isFollowed && token === follow)) && Number.isFinite(py)) labels.push([token, py]);
  }
  for (const [token, py] of spaced(labels, 11)) {
    const name = [...(names[token] ?? String(token))], isWide = name.length > 2;
    const words = name.length > 14 ? `${name.slice(0, 13).join('')}…` : name.join('');
    pen.text(words, isWide ? w - FRAME.right - 8 : Math.min(x(run.step[last]) + 8, w - FRAME.right + 7), py, { size: 10.5, bold: true, base: 'middle', align: isWide ? 'right' : 'left', fill: tokenColour(token, count), halo: '#fff' });
  }
  if (count > 8 && names.length === count) drawRamp(pen, w, names);
}

// The token whose line is nearest to a place in a picture of margins, if one is near.
export function tokenAt(w, h, data, k, px, py) {
  const run = data.runs[k], x = stepAxis(data, w), y = marginAxis([run], h), count = run.margins?.shape[1] ?? 0, at = recordAt(run, Math.round(x.back(px)));
  let best = [12, null];
  for (let token = 0; token < count; token++) {
    const away = Math.abs(y(run.margins[at * count + token]) - py);
    if (away < best[0]) best = [away, token];
  }
  return best[1];
}

// Which colour is which of many tokens.
function drawRamp(pen, w, names) {
  const wide = 70, x = w - FRAME.right - wide - 34, y = FRAME.top + 4, count = names.length, short = (name) => (name.length > 6 ? `${name.slice(0, 5)}…` : name);
  pen.area([x - 46, y - 4, w - FRAME.right, y - 4, w - FRAME.right, y + 10, x - 46, y + 10], { fill: '#fff', alpha: 0.8 });
  for (let k = 0; k < wide; k++) pen.area([x + k, y, x + k + 1.2, y, x + k + 1.2, y + 5, x + k, y + 5], { fill: tokenColour(Math.round((k / (wide - 1)) * (count - 1)), count) });
  pen.text(`token ${short(names[0])}`, x - 4, y + 3, { size: 10, align: 'right', base: 'middle', halo: '#fff' });
  pen.text(short(names[count - 1]), x + wide + 4, y + 3, { size: 10, base: 'middle', halo: '#fff' });
}

function spaced(labels, room) {
  const sorted = [...labels].sort((a, b) => a[1] - b[1]);
  for (let i = 1; i < sorted.length; i++) if (sorted[i][1] - sorted[i - 1][1] < room) sorted[i] = [sorted[i][0], sorted[i - 1][1] + room];
  return sorted;
}

export function drawTraceCursor(pen, w, h, data, step, y, read) {
  const x = stepAxis(data, w), at = x(Math.min(step, data.state.steps));
  pen.line([at, FRAME.top, at, h - FRAME.bottom], { stroke: '#000', width: 1, alpha: 0.6 });
  for (const { value, colour, shape, when } of read) {
    if (Number.isFinite(value) && (!y.isLog || value >= 0)) mark(pen, shape, x(when), y(y.isLog && value === 0 ? y.range[0] : value), 4, { fill: colour, stroke: '#fff', width: 1.4 });
  }
}
