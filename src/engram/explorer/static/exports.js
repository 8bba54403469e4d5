// Everything on the page, to take away: a picture, the numbers, or the lines that compute them.

import { CanvasPen, SvgPen } from './pens.js';
import { RUNS, SHAPES, mark } from './looks.js';
import { fieldsOf } from './state.js';
import { drawError, drawExtra, drawLoss, drawMargins, drawPlane, drawPlaneCursor, drawSharpnessTrace, extraTitle } from './pictures.js';

const SIDE = 560, TRACE = [440, 160], TITLE = 22, LEGEND = 20;

export function save(name, content, type) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const link = Object.assign(document.createElement('a'), { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

// Places each picture on one sheet; `place(x, y, w, h, title, draw)` is the sheet's.
function layOut(data, place) {
  const traces = [['Loss', drawLoss], ['Error (0-1 loss)', drawError], ['Sharpness, and 2/η dashed', drawSharpnessTrace]];
  const margins = (k) => [`Margins of run ${k + 1}`, (pen, w, h) => drawMargins(pen, w, h, data, k)];
  for (const { kind } of data.state.record) traces.push([extraTitle(data, kind), (pen, w, h) => drawExtra(pen, w, h, data, kind)]);
  if (data.plane.has_plane) {
    place(0, 0, SIDE, SIDE, 'The plane of γ = Wᵀ(u₁ − u₂)', (pen, w, h) => { drawPlane(pen, w, h, data); drawPlaneCursor(pen, w, h, data, data.state.steps); });
    traces.splice(2, 0, margins(Math.min(data.state.show.focus, data.runs.length - 1)));
  } else {
    const tall = Math.min(TRACE[1] * 4, SIDE) / data.runs.length;
    data.runs.forEach((_, k) => place(0, k * (tall + TITLE), SIDE, tall, ...margins(k)));
  }
  traces.forEach(([title, draw], k) => place(SIDE + 10, k * (TRACE[1] + TITLE), ...TRACE, title, (pen, w, h) => draw(pen, w, h, data)));
}

// A run by its dynamics, its learning rate, and whatever is not as usual.
export function runName({ kind, learning_rate: rate, changes = [], ...more }) {
  const fields = fieldsOf('dynamics', { kind, ...more }), said = ([name, value]) => (name === 'seed' ? value : value !== fields[name]?.usual);
  const others = Object.entries(more).filter(said).map(([name, value]) => `, ${name.replaceAll('_', ' ')} ${typeof value === 'object' ? '…' : value}`);
  return `${kind}${rate === undefined ? '' : `, η ${typeof rate === 'object' ? 'varying' : `= ${rate}`}`}${changes.map((change) => `, then ${change.rate} from step ${change.step}`).join('')}${others.join('')}`;
}

const sheet = (data) => [SIDE + TRACE[0] + 30, legendHeight(data) + (4 + data.state.record.length) * (TRACE[1] + TITLE) + 10];
const legendHeight = (data) => LEGEND * data.state.runs.length;

function legend(pen, data) {
  data.state.runs.forEach((run, k) => {
    mark(pen, SHAPES[k], 16, LEGEND * k + 12, 5, { fill: RUNS[k] });
    pen.text(runName(run), 28, LEGEND * k + 12, { size: 12, base: 'middle' });
  });
}

export function toSvg(data) {
  const [w, h] = sheet(data), head = legendHeight(data), pen = new SvgPen(w, h);
  legend(pen, data);
  layOut(data, (x, y, width, height, title, draw) => pen.group(x + 5, y + head, () => {
    pen.text(title, 4, 14, { size: 12, bold: true });
    pen.group(0, TITLE, () => draw(pen, width, height));
  }));
  return pen.toString();
}

export function toPng(data, ratio = 2) {
  const [w, h] = sheet(data), head = legendHeight(data), canvas = Object.assign(document.createElement('canvas'), { width: w * ratio, height: h * ratio });
  const context = canvas.getContext('2d'), pen = new CanvasPen(context);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = '#fff';
  context.fillRect(0, 0, w, h);
  legend(pen, data);
  layOut(data, (x, y, width, height, title, draw) => {
    context.setTransform(ratio, 0, 0, ratio, (x + 5) * ratio, (y + head) * ratio);
    pen.text(title, 4, 14, { size: 12, bold: true });
    context.setTransform(ratio, 0, 0, ratio, (x + 5) * ratio, (y + head + TITLE) * ratio);
    draw(pen, width, height);
  });
  return new Promise((resolve) => { canvas.toBlob(resolve, 'image/png'); });
}

const nested = (values) => {
  const rows = ([size, ...rest], from) => Array.from({ length: size }, (_, k) => (rest.length ? rows(rest, from + k * rest.reduce((a, b) => a * b, 1)) : values[from + k]));
  return rows(values.shape, 0);
};
const plain = (part) => Object.fromEntries(Object.entries(part).map(([name, value]) => [name, value instanceof Float64Array ? nested(value) : value]));

// Numbers as JSON has them, to the last bit; what is not finite is null.
export function toJson(data, python, url) {
  return JSON.stringify({ about: 'A state of the engram explorer and what was computed from it', url, python, state: data.state, problem: plain(data.plane), runs: data.runs.map(plain) }, null, 1);
}
