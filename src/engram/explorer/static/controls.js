// Controls: each reads one part of the state and writes it back; nothing is decided here.

import { DRAWS, LIMITS, METHODS, copy, problemOf } from './state.js';
import { RUNS } from './looks.js';

const $ = (id) => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

// A slider and a number that say the same. `slide` maps the slider's place to the value and back.
function numberField({ id, label, name = label, path, min, max, step = 'any', slider = {}, read, write, edit, parts }) {
  const slide = slider.log ? { to: (v) => 10 ** v, from: (v) => Math.log10(v) }
    : slider.stops ? { to: (k) => slider.stops[k], from: (v) => slider.stops.findLastIndex((stop) => stop <= v) }
    : { to: (v) => v, from: (v) => v };
  const round = (v) => (slider.log ? +v.toPrecision(3) : slider.whole ? Math.round(v) : +v.toFixed(4));
  const low = slider.low ?? min, high = slider.high ?? max;
  const range = make('input', {
    type: 'range', min: slide.from(low), max: slide.from(high), step: slider.log ? 0.01 : slider.step ?? (slider.whole ? 1 : 0.01),
    'aria-label': `${name}, slider`, id: `${id}-slider`,
  });
  const number = make('input', { type: 'number', id, min, max, step, 'data-path': path, inputmode: 'decimal', 'aria-label': name === label ? null : name });
  const take = (final, value) => { write(value); edit(parts(), { final, key: id }); };
  // A whole number moves by one at least, however little the slider does.
  const slid = () => {
    const now = read(), place = Number(range.value), value = round(slide.to(place));
    if (!(slider.whole && slider.log)) return value;
    const whole = Math.round(value), ahead = Math.sign(place - slide.from(now));
    return whole === now && Math.abs(place - slide.from(now)) > 1e-9 ? now + ahead : whole;
  };
  range.addEventListener('input', () => take(false, slid()));
  range.addEventListener('change', () => take(true, read()));
  number.addEventListener('input', () => { if (number.value !== '') take(false, number.valueAsNumber); });
  number.addEventListener('change', () => take(true, number.value === '' ? null : number.valueAsNumber));
  const show = () => {
    const value = read();
    if (document.activeElement !== number) number.value = value ?? '';
    if (Number.isFinite(value)) range.value = slide.from(Math.min(Math.max(value, low), high));
    range.setAttribute('aria-valuetext', String(value));
  };
  return { row: make('div', { class: 'row number' }, make('label', { for: id }, label), range, number), show };
}

export class Controls {
  // page: { state, edit(parts, { final, key }), load(preset), note(text) }
  constructor(page) {
    this.page = page;
    this.fields = [];
    const both = () => ['plane', 'runs'], runs = () => ['runs'];
    const field = (holder, options) => {
      const made = numberField({ edit: (...args) => page.edit(...args), ...options });
      holder.append(made.row);
      this.fields.push({ ...made, holder });
    };
    const part = (name) => ({ read: () => page.state.problem[name], write: (v) => { page.state.problem[name] = v; }, parts: both });
    const two = document.querySelector('[data-kind=two]'), sphere = document.querySelector('[data-kind=sphere]');
    field(two, { id: 'correlation', label: 'correlation α', path: 'problem.correlation', min: -1, max: 1, ...part('correlation') });
    field(two, { id: 'p1', label: 'frequency p₁', path: 'problem.p1', min: 0, max: 1, ...part('p1') });
    field(sphere, { id: 'tokens', label: 'tokens N', path: 'problem.tokens', min: 1, max: 50, step: 1, slider: { whole: true, stops: [1, 2, 3, 4, 5, 8, 10, 15, 20, 30, 40, 50] }, ...part('tokens') });
    field(sphere, { id: 'classes', label: 'classes M', path: 'problem.classes', min: 2, max: 10, step: 1, slider: { whole: true }, ...part('classes') });
    field(sphere, { id: 'dim', label: 'dimension d', path: 'problem.dim', min: 2, max: 32, step: 1, slider: { whole: true }, ...part('dim') });
    field(sphere, { id: 'exponent', label: 'Zipf exponent', path: 'problem.exponent', min: 0, max: 4, slider: { high: 3 }, ...part('exponent') });
    field(sphere, { id: 'draw', label: 'draw (seed)', path: 'problem.seed', min: 0, max: 2147483647, step: 1, slider: { whole: true, high: 200 }, ...part('seed') });
    field($('steps-fields'), {
      id: 'steps', label: 'steps', path: 'steps', min: 1, max: LIMITS.steps, step: 1, parts: runs, slider: { log: true, whole: true, low: 10 },
      read: () => page.state.steps, write: (v) => { page.state.steps = v === null ? v : Math.round(v); },
    });
    const start = (name) => ({ read: () => page.state.start[name], write: (v) => { page.state.start[name] = v; }, parts: runs });
    field($('plane-start'), { id: 'start-a', label: 'start γ₁', path: 'start.a', min: -10000, max: 10000, slider: { low: -20, high: 20, step: 0.05 }, ...start('a') });
    field($('plane-start'), { id: 'start-b', label: 'start γ₂', path: 'start.b', min: -10000, max: 10000, slider: { low: -20, high: 20, step: 0.05 }, ...start('b') });
    field($('random-start'), { id: 'start-scale', label: 'random scale', path: 'start.scale', min: 0, max: 100, slider: { high: 5 }, ...start('scale') });
    field($('random-start'), { id: 'start-seed', label: 'start seed', path: 'start.seed', min: 0, max: 2147483647, step: 1, slider: { whole: true, high: 100 }, ...start('seed') });
    const view = (name) => ({ read: () => page.state.view[name], write: (v) => { page.state.view[name] = v; }, parts: () => ['plane'] });
    field($('view-fields'), { id: 'half', label: 'half width', path: 'view.half', min: 0.01, max: 10000, slider: { log: true, low: 0.1, high: 1000 }, ...view('half') });
    field($('view-fields'), { id: 'view-x', label: 'centre γ₁', path: 'view.x', min: -10000, max: 10000, slider: { low: -50, high: 50, step: 0.1 }, ...view('x') });
    field($('view-fields'), { id: 'view-y', label: 'centre γ₂', path: 'view.y', min: -10000, max: 10000, slider: { low: -50, high: 50, step: 0.1 }, ...view('y') });
    this.wire();
  }

  wire() {
    const { page } = this, final = { final: true };
    const choose = (id, write, parts) => $(id).addEventListener('change', () => { write($(id).value); page.edit(parts, { ...final, key: id }); });
    choose('kind', (kind) => { page.state.problem = problemOf(kind); page.state.preset = null; }, ['plane', 'runs']);
    choose('paper-name', (name) => { page.state.problem.name = name; }, ['plane', 'runs']);
    choose('overlay', (overlay) => { page.state.view.overlay = overlay; }, ['plane']);
    choose('loss-scale', (kind) => { page.state.show.loss = kind; }, []);
    choose('step-scale', (kind) => { page.state.show.axis = kind; }, []);
    $('paper-name').append(...Object.entries(DRAWS).map(([value, words]) => make('option', { value }, words)));
    $('preset').addEventListener('change', () => page.load($('preset').value));
    $('reset').addEventListener('click', () => { page.load(page.state.preset); $('preset').focus(); });
    $('add-run').addEventListener('click', () => {
      const last = page.state.runs.at(-1);
      page.state.runs.push({ method: 'gd', rate: Math.min(+((last.rate || 1) * 3).toPrecision(3), 1e6) });
      page.edit(['runs'], { ...final, key: 'runs' });
      $(`rate-${page.state.runs.length - 1}`)?.focus();
    });
    $('change-rate').addEventListener('click', () => this.changeRate());
    $('start-zero').addEventListener('click', () => {
      Object.assign(page.state.start, { a: 0, b: 0, scale: 0 });
      page.edit(['runs'], { ...final, key: 'start' });
    });
    const zoom = (factor) => () => { page.state.view.half = Math.min(Math.max(+(page.state.view.half * factor).toPrecision(4), 0.01), 1e4); page.edit(['plane'], { ...final, key: 'zoom' }); };
    $('zoom-in').addEventListener('click', zoom(0.5));
    $('zoom-out').addEventListener('click', zoom(2));
  }

  changeRate() {
    const { state } = this.page, run = state.runs[state.show.focus] ?? state.runs[0], step = this.page.cursor;
    if (run.method !== 'gd') return this.page.note('Only plain descent can change its learning rate on the way.');
    if (step < 1 || step >= state.steps) return this.page.note('Move the step cursor to where the learning rate shall change.');
    const changes = (run.changes ?? []).filter((change) => change.step !== step);
    if (changes.length >= LIMITS.changes) return this.page.note(`A run changes its learning rate at most ${LIMITS.changes} times.`);
    const before = changes.filter((change) => change.step < step).at(-1)?.rate ?? run.rate;
    run.changes = [...changes, { step, rate: +(before * 2).toPrecision(3) }].sort((a, b) => a.step - b.step);
    this.page.edit(['runs'], { final: true, key: 'change' });
    return null;
  }

  showPresets(presets) {
    $('preset').replaceChildren(make('option', { value: '' }, 'your own settings'), ...presets.map(({ id, title }) => make('option', { value: id }, title)));
  }

  show({ hasPlane, isChanged, preset }) {
    const { state } = this.page, { kind } = state.problem;
    $('preset').value = preset ? preset.id : '';
    const words = preset ? preset.text : 'Move anything; the address of this page keeps it all.';
    setText($('commentary'), preset && isChanged ? `Changed since. The preset's text: ${words}` : words);
    $('reset').hidden = !(preset && isChanged);
    $('kind').value = kind;
    for (const option of $('kind').options) if (['table', 'own'].includes(option.value)) option.hidden = option.value !== kind;
    for (const element of document.querySelectorAll('[data-kind]')) element.hidden = element.dataset.kind !== kind;
    for (const element of document.querySelectorAll('[data-plane]')) element.hidden = !hasPlane;
    $('view-fields').hidden = !hasPlane;
    $('plane-start').hidden = !hasPlane;
    $('random-start').hidden = hasPlane;
    if (kind === 'paper') $('paper-name').value = state.problem.name;
    $('overlay').value = state.view.overlay;
    $('loss-scale').value = state.show.loss;
    $('step-scale').value = state.show.axis;
    for (const field of this.fields) if (!field.holder.hidden) field.show();
    this.showRuns();
    $('add-run').disabled = state.runs.length >= LIMITS.runs;
  }

  // Rows are made anew only when their number or kind changes, so that the focus stays where it is.
  showRuns() {
    const { page } = this, { runs, show } = page.state;
    const form = JSON.stringify(runs.map((run) => [run.method, (run.changes ?? []).map((change) => change.step)]));
    if (form !== this.form) {
      this.form = form;
      const focused = document.activeElement?.id;
      this.runFields = runs.map((run, k) => this.runRow(k));
      $('run-list').replaceChildren(...this.runFields.map(({ row }) => row));
      if (focused) document.getElementById(focused)?.focus();
    }
    this.runFields.forEach((field, k) => field.show(k === Math.min(show.focus, runs.length - 1)));
  }

  runRow(k) {
    const { page } = this, run = () => page.state.runs[k], edit = (...args) => page.edit(...args);
    const rate = numberField({
      id: `rate-${k}`, label: 'rate η', name: `rate η of run ${k + 1}`, path: `runs.${k}.rate`, min: 0, max: 1000000, slider: { log: true, low: 0.01, high: 1000 },
      read: () => run().rate, write: (v) => { run().rate = v; }, edit, parts: () => ['runs'],
    });
    const method = make('select', { id: `method-${k}`, 'aria-label': `Dynamics of run ${k + 1}`, 'data-path': `runs.${k}.method`, onchange: () => {
      page.state.runs[k] = { method: method.value, rate: run().rate };
      edit(['runs'], { final: true, key: `method-${k}` });
    } }, ...Object.entries(METHODS).map(([value, words]) => make('option', { value }, words)));
    const focus = make('input', { type: 'radio', name: 'focus', id: `focus-${k}`, 'aria-label': `Show the margins of run ${k + 1}`, title: 'Show its margins', onchange: () => {
      page.state.show.focus = k;
      edit([], { final: true, key: 'focus' });
    } });
    const remove = make('button', { type: 'button', 'aria-label': `Remove run ${k + 1}`, title: 'Remove', onclick: () => {
      page.state.runs.splice(k, 1);
      edit(['runs'], { final: true, key: 'runs' });
      $(`method-${Math.max(k - 1, 0)}`)?.focus();
    } }, '×');
    const fields = [rate];
    const row = make('li', {}, make('div', { class: 'run-head' }, focus, method, remove), rate.row);
    row.style.borderColor = RUNS[k];
    if (run().method === 'sgd') {
      const batch = make('select', { id: `batch-${k}`, 'data-path': `runs.${k}.batch`, onchange: () => { run().batch = Number(batch.value); edit(['runs'], { final: true, key: `batch-${k}` }); } },
        ...[1, 4, 16, 64].map((value) => make('option', { value }, value)));
      row.append(make('div', { class: 'row' }, make('label', { for: `batch-${k}` }, 'batch size'), batch));
      const seed = numberField({
        id: `seed-${k}`, label: 'seed', name: `seed of run ${k + 1}`, path: `runs.${k}.seed`, min: 0, max: 2147483647, step: 1, slider: { whole: true, high: 100 },
        read: () => run().seed ?? 0, write: (v) => { run().seed = v; }, edit, parts: () => ['runs'],
      });
      fields.push(seed, { show: () => { batch.value = run().batch ?? 4; } });
      row.append(seed.row);
    }
    if (run().changes?.length) {
      row.append(make('ul', { class: 'changes' }, ...run().changes.map((_, i) => {
        const then = numberField({
          id: `then-${k}-${i}`, label: `η from step ${run().changes[i].step}`, name: `η from step ${run().changes[i].step}, run ${k + 1}`, path: `runs.${k}.changes.${i}.rate`, min: 0, max: 1000000, slider: { log: true, low: 0.01, high: 1000 },
          read: () => run().changes[i].rate, write: (v) => { run().changes[i].rate = v; }, edit, parts: () => ['runs'],
        });
        fields.push(then);
        return make('li', {}, then.row, make('button', { type: 'button', 'aria-label': `Remove the change of run ${k + 1} at step ${run().changes[i].step}`, onclick: () => {
          run().changes.splice(i, 1);
          edit(['runs'], { final: true, key: 'change' });
          $(`rate-${k}`)?.focus();
        } }, 'remove this change'));
      })));
    }
    return { row, show: (isFocus) => { method.value = run().method; focus.checked = isFocus; remove.disabled = page.state.runs.length === 1; for (const field of fields) field.show(); } };
  }

  // Marks what the server refused; its messages begin with the field's path.
  refuse(text) {
    for (const input of document.querySelectorAll('[data-path]')) input.toggleAttribute('aria-invalid', false);
    if (!text) return;
    for (const input of document.querySelectorAll('[data-path]')) {
      if (text.split('; ').some((fault) => fault.startsWith(`${input.dataset.path}:`))) input.setAttribute('aria-invalid', 'true');
    }
  }
}

// Only what differs is written: a live region would read it out again.
export function setText(element, words) { if (element.textContent !== words) element.textContent = words; }

export { copy, make };
