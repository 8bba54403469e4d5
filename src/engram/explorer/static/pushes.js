// Who pushes whom: how much each token moves the margin of each other one at the step of the cursor, as a map.

import { make, setText } from './controls.js';
import { FRAME, number } from './looks.js';
import { Panel } from './pens.js';

const $ = (id) => document.getElementById(id);
const RAISES = [0, 86, 138], LOWERS = [192, 74, 0]; // blue and orange: far apart for everybody
const MOST_NAMED = 12, SOON = 80, LATER = 500; // ms; the library compiles

const shade = (value, most) => {
  const part = Math.sqrt(Math.min(Math.abs(value) / most, 1)), to = value < 0 ? LOWERS : RAISES; // by the root, so that weak pushes are seen too
  return to.map((end) => Math.round(255 + part * (end - 255)));
};

// What the map says of itself: the strongest push, and what a token's margin does in all.
export function wordsOf({ push, change, rest, first, last }, names, cell) {
  const N = names.length, at = ([x, source]) => push[x * N + source], between = `From step ${first} to ${last}`;
  const said = (pair) => { const [x, source] = pair, size = number(Math.abs(at(pair))); return `token ${names[source]} ${at(pair) < 0 ? 'lowers' : 'raises'} ${x === source ? 'its own margin' : `the margin of token ${names[x]}`} by ${size}`; };
  if (cell) {
    const others = Math.abs(rest[cell[0]]) > 1e-9 * Math.max(Math.abs(change[cell[0]]), 1e-9) ? `, of which ${number(rest[cell[0]])} is not a token's` : '';
    return `${between}, ${said(cell)}; all together change it by ${number(change[cell[0]])}${others}.`;
  }
  let best = [0, 0];
  for (let x = 0; x < N; x++) for (let source = 0; source < N; source++) if (Math.abs(at([x, source])) > Math.abs(at(best))) best = [x, source];
  return `${between}. Blue raises a margin, orange lowers it. The strongest push: ${said(best)}.`;
}

export class Pushes {
  // page: { ask(state, { step, run }), isAtRest(), isLocal(), toggle(isOpen), choose(token) }
  constructor(page) {
    Object.assign(this, { page, shown: null, wanted: null, isOut: false, timer: null, cell: null, fault: null });
    this.panel = new Panel($('pushes'), (pen, w, h) => this.draw(pen, w, h), (pen, w, h) => this.drawCell(pen, w, h));
    $('pushes-box').addEventListener('toggle', () => {
      page.toggle($('pushes-box').open);
      this.panel.measure();
      this.panel.base();
      this.ask();
    });
    const canvas = $('pushes'), cellAt = ({ clientX, clientY }) => {
      const box = canvas.getBoundingClientRect(), { left, top, side, N } = this.room(box.width, box.height);
      const [source, x] = [clientX - box.left - left, clientY - box.top - top].map((at) => Math.floor((at / side) * N));
      return x >= 0 && x < N && source >= 0 && source < N ? [x, source] : null;
    };
    canvas.addEventListener('pointermove', (event) => this.point(cellAt(event)));
    canvas.addEventListener('pointerleave', () => { if (document.activeElement !== canvas) this.point(null); });
    canvas.addEventListener('blur', () => this.point(null));
    canvas.addEventListener('click', (event) => { const cell = cellAt(event); if (cell) { this.point(cell); page.choose(cell[0]); } });
    canvas.addEventListener('keydown', (event) => {
      const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key], { N } = this;
      if (event.key === 'Enter' && this.cell) page.choose(this.cell[0]);
      if (!move || !N || event.ctrlKey || event.metaKey || event.altKey) return;
      this.point((this.cell ?? [-move[0], -move[1]]).map((at, k) => Math.min(Math.max(at + move[k], 0), N - 1)));
      event.preventDefault();
      event.stopPropagation(); // elsewhere these keys move the step
    });
  }

  get N() { return this.shown?.change.length ?? 0; }

  room(w, h) {
    const side = Math.max(Math.min(w - 2 * FRAME.left, h - 34), 1);
    return { left: (w - side) / 2, top: 4, side, N: this.N };
  }

  point(cell) {
    if (String(cell) === String(this.cell)) return;
    this.cell = cell;
    this.panel.cursor();
    this.say();
  }

  say() { setText($('pushes-words'), this.fault ?? (this.shown ? wordsOf(this.shown, this.shown.names, this.cell) : 'computing …')); }

  // What the page shows by now.
  see(data, step, run) {
    this.wanted = { data, step, run };
    setText($('pushes-title'), data.runs.length > 1 ? `Who pushes whom in run ${run + 1}` : 'Who pushes whom');
    this.follow = data.state.show.follow;
    if (this.shown) this.panel.cursor();
    this.ask();
  }

  isShown({ data, step, run }) { return this.done && this.done.runs === data.runs && this.done.step === step && this.done.run === run; }

  // At rest only: whatever else is computed comes first.
  ask() {
    if (!$('pushes-box').open || !this.wanted || this.isShown(this.wanted)) return;
    this.timer ??= setTimeout(() => { this.timer = null; this.askNow(); }, this.page.isLocal() ? SOON : LATER);
  }

  async askNow() {
    const { data, step, run } = this.wanted;
    if (this.isOut || this.isShown(this.wanted) || !$('pushes-box').open) return;
    if (!this.page.isAtRest()) { this.ask(); return; }
    this.isOut = true;
    const { found, fault } = await this.page.ask(data.asked, { step, run });
    this.isOut = false;
    if (found || fault) {
      this.done = { runs: data.runs, step, run };
      this.fault = fault ?? null;
      this.shown = found && { ...found.header.pushes, names: data.plane.names, push: found.arrays['pushes.push'], change: found.arrays['pushes.change'], rest: found.arrays['pushes.rest'] };
      if (this.cell && Math.max(...this.cell) >= this.N) this.cell = null;
      this.say();
      this.panel.base();
    }
    this.ask(); // the cursor may have moved on
  }

  measure() { if ($('pushes-box').open) { this.panel.measure(); this.panel.base(); } }

  draw(pen, w, h) {
    if (!this.shown) return;
    const { left, top, side, N } = this.room(w, h), { push, names } = this.shown, most = Math.max(...push.map(Math.abs), 1e-300);
    const ratio = Math.max(1, Math.ceil((2 * side) / N)), picture = make('canvas', { width: N * ratio, height: N * ratio }), context = picture.getContext('2d');
    for (let x = 0; x < N; x++) for (let source = 0; source < N; source++) {
      context.fillStyle = `rgb(${shade(push[x * N + source], most)})`;
      context.fillRect(source * ratio, x * ratio, ratio, ratio);
    }
    pen.image(picture, left, top, side, side);
    pen.line([left, top, left + side, top, left + side, top + side, left, top + side, left, top], { stroke: '#888' });
    const short = (name) => ([...name].length > 7 ? `${[...name].slice(0, 6).join('')}…` : name), size = side / N;
    const shown = names.map((_, token) => token).filter((token) => N <= MOST_NAMED || token === 0 || token === N - 1);
    for (const token of shown) {
      pen.text(short(names[token]), left - 4, top + (token + 0.5) * size, { size: 10, align: 'right', base: 'middle' });
      if (size > 44 || N > MOST_NAMED || names.every((name) => name.length < 3)) pen.text(short(names[token]), left + (token + 0.5) * size, top + side + 3, { size: 10, align: 'center', base: 'top' });
    }
    pen.text('by token', left + side / 2, top + side + 16, { size: 10.5, align: 'center', base: 'top', fill: '#555' });
    pen.text('pushed token', left - 42, top + side / 2, { size: 10.5, align: 'center', base: 'middle', fill: '#555', turn: -Math.PI / 2 });
  }

  drawCell(pen, w, h) {
    const { left, top, side, N } = this.room(w, h), size = side / (N || 1);
    const box = (x, y, wide, tall, style) => pen.line([x, y, x + wide, y, x + wide, y + tall, x, y + tall, x, y], style);
    if (this.shown && this.follow !== null && this.follow < N) box(left, top + this.follow * size, side, size, { stroke: '#1a1a1a', width: 1.2 });
    if (this.cell) box(left + this.cell[1] * size, top + this.cell[0] * size, size, size, { stroke: '#1a1a1a', width: 2.4 });
  }
}
