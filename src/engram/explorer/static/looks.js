// One look: colours that the colour-blind can distinguish, marks in addition to them, axes and their numbers.

export const RUNS = ['#C04A00', '#00674F', '#7B2D8E', '#1A1A1A']; // after Okabe and Ito, darker for contrast, none of them blue: sectors are
export const SHAPES = ['disc', 'square', 'triangle', 'diamond'];
export const SIGNS = ['●', '■', '▲', '◆']; // the same, in text
const FEW = ['#4234E7', '#F84109', '#003F35', '#C10079', '#6D3700', '#518DB2', '#13072F', '#7530AF']; // far apart for everybody: a test measures it
const RAMP = [[15, 10, 60], [60, 60, 130], [120, 80, 90], [170, 120, 0]]; // frequent to rare, ever lighter

const mix = (a, b, s) => a.map((v, i) => Math.round(v + s * (b[i] - v)));
const rgb = (v) => `rgb(${v[0]},${v[1]},${v[2]})`;

function along(ramp, s) {
  const at = Math.min(Math.max(s, 0), 1) * (ramp.length - 1), k = Math.min(Math.floor(at), ramp.length - 2);
  return mix(ramp[k], ramp[k + 1], at - k);
}

export const tokenColour = (token, count) => (count <= FEW.length ? FEW[token] : rgb(along(RAMP, token / (count - 1))));
export const accuracyColour = (accuracy) => rgb(along([[255, 255, 255], [205, 225, 241], [142, 187, 227]], accuracy));
export const sharpnessColour = (s) => along([[255, 255, 255], [222, 222, 222], [160, 160, 160], [95, 95, 95]], s);

export function mark(pen, shape, x, y, r, style) {
  if (shape === 'disc') pen.disc(x, y, r, style);
  if (shape === 'square') pen.area([x - r, y - r, x + r, y - r, x + r, y + r, x - r, y + r], style);
  if (shape === 'triangle') pen.area([x, y - 1.2 * r, x + 1.1 * r, y + r, x - 1.1 * r, y + r], style);
  if (shape === 'diamond') pen.area([x, y - 1.3 * r, x + 1.3 * r, y, x, y + 1.3 * r, x - 1.3 * r, y], style);
}

export function number(v, digits = 4) {
  if (v === null || v === undefined || Number.isNaN(v)) return 'not finite';
  if (v === 0) return '0';
  const size = Math.abs(v);
  if (!Number.isFinite(v)) return v > 0 ? '∞' : '−∞';
  const text = size >= 1e5 || size < 1e-3 ? v.toExponential(digits - 2) : String(+v.toPrecision(digits));
  return text.replace(/\.?0+e/, 'e').replace('e+', 'e').replaceAll('-', '−');
}

// An axis from data to pixels: linear, logarithmic, or logarithmic in 1 + t for steps.
export function axis(kind, low, high, from, to) {
  const f = { linear: (v) => v, log: (v) => Math.log(v), log1p: (v) => Math.log1p(v) }[kind];
  const back = { linear: (v) => v, log: (v) => Math.exp(v), log1p: (v) => Math.expm1(v) }[kind];
  const a = f(low), b = f(high), span = b - a || 1;
  const place = (v) => from + ((f(v) - a) / span) * (to - from);
  place.back = (px) => back(a + ((px - from) / (to - from)) * span);
  place.ticks = () => (kind === 'linear' ? linearTicks(low, high) : kind === 'log' ? logTicks(low, high) : stepTicks(high));
  place.range = [low, high];
  place.label = kind === 'linear' ? fixed(linearStep(low, high)) : (v) => number(v, 5);
  return place;
}

function linearStep(low, high, count = 5) {
  const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw || 1));
  return [1, 2, 5, 10].map((k) => k * power).find((k) => k >= raw * (1 - 1e-9)) || power;
}

// As many digits as tell one tick from the next.
function fixed(step) {
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  return (v) => (Math.abs(v) >= 1e6 ? number(v, 5) : digits > 12 ? number(v, 12) : v.toFixed(digits).replace('-', '−').replace(/^−(0(\.0*)?)$/, '$1'));
}

function linearTicks(low, high, count = 5) {
  const step = linearStep(low, high, count), found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(k * step);
  return found;
}

function logTicks(low, high) {
  const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high)), decades = last - first;
  const digits = decades <= 2 ? [1, 2, 5] : [1], every = Math.max(1, Math.ceil(decades / 6)), found = [];
  for (let k = first; k <= last; k++) {
    if (digits.length === 1 && (k - first) % every) continue;
    for (const digit of digits) { const v = digit * 10 ** k; if (v >= low * 0.999 && v <= high * 1.001) found.push(v); }
  }
  return found.length > 1 ? found : linearTicks(low, high, 4).filter((v) => v > 0);
}

function stepTicks(high) {
  const found = [0];
  for (let v = 1; v <= high; v *= 10) found.push(v);
  return found;
}

export const FRAME = { left: 52, right: 20, top: 8, bottom: 24 };

export function frame(pen, w, h, x, y, { xLabel = null, room = FRAME, grid = true } = {}) {
  const { left, right, top, bottom } = room;
  let last = Infinity;
  for (const v of y.ticks()) {
    const at = y(v);
    if (Math.abs(last - at) < 10) continue; // its number would cover the last one's
    last = at;
    if (grid) pen.line([left, at, w - right, at], { stroke: '#e6e8ec' });
    pen.text(y.label(v), left - 5, at, { size: 10.5, align: 'right', base: 'middle', fill: '#444' });
  }
  for (const v of x.ticks()) {
    const at = x(v);
    pen.line([at, h - bottom, at, h - bottom + 4], { stroke: '#888' });
    const words = x.label(v), half = 3.2 * words.length;
    pen.text(words, Math.min(at, w - half - 1), h - bottom + 6, { size: 10.5, align: 'center', base: 'top', fill: '#444' });
  }
  pen.line([left, top, left, h - bottom, w - right, h - bottom], { stroke: '#888' });
  if (xLabel) pen.text(xLabel, left - 12, h - bottom + 6, { size: 10.5, align: 'right', base: 'top', fill: '#555' });
}
