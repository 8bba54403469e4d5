// Controls: each reads one part of the state and writes it back; nothing is decided here.

import { DRAWS, LIMITS, catalogue, complete, copy, fieldsOf, isPlain, isReplay, partsOf, tableOf } from './state.js';
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

// A slider and a number input for one value. `slide` maps the slider's place to the value and back.
function numberField({ id, label, name = label, help = null, path, min, max, step = 'any', slider = {}, read, write, edit, parts }) {
  if (!slider) return plainField({ id, label, name, help, path, type: 'number', more: { min, max, step, inputmode: 'decimal' }, read, write, edit, parts, take: (text) => (text === '' ? null : Number(text)) });
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
  return { row: make('div', { class: 'row number' }, make('label', { for: id, title: help }, label), range, number), show };
}

// A field that is typed; `take` makes a value of its text.
function plainField({ id, label, name, help, path, type, more = {}, read, write, edit, parts, take, say = (value) => value ?? '' }) {
  const input = make('input', { type, id, 'data-path': path, 'aria-label': name === label ? null : name, ...more });
  input.addEventListener('change', () => { write(take(input.value)); edit(parts(), { final: true, key: id }); });
  return { row: make('div', { class: 'row' }, make('label', { for: id, title: help }, label), input), show: () => { if (document.activeElement !== input) input.value = say(read()); } };
}

function selectField({ id, label, name, help, path, options, read, write, edit, parts }) {
  const select = make('select', { id, 'data-path': path, 'aria-label': name === label ? null : name, onchange: () => { write(options[select.selectedIndex][0]); edit(parts(), { final: true, key: id }); } });
  const show = () => {
    const now = read();
    if (!options.some(([value]) => value === now)) options = [...options, [now, String(now ?? 'usual')]];
    if (select.options.length !== options.length) select.replaceChildren(...options.map(([value, words]) => make('option', { value: typeof value === 'string' ? value : words }, words)));
    select.selectedIndex = options.findIndex(([value]) => value === now);
  };
  return { row: make('div', { class: 'row' }, make('label', { for: id, title: help }, label), select), show };
}

function checkField({ id, label, name, help, path, read, write, edit, parts }) {
  const box = make('input', { type: 'checkbox', id, 'data-path': path, 'aria-label': name === label ? null : name, onchange: () => { write(box.checked); edit(parts(), { final: true, key: id }); } });
  return { row: make('div', { class: 'row' }, make('label', { for: id, title: help }, label), box), show: () => { box.checked = Boolean(read()); } };
}

// How fields that many have are called and slid; whatever else is registered goes by its own name.
const LOOKS = {
  correlation: { label: 'correlation α' },
  p1: { label: 'frequency p₁' },
  num_tokens: { id: 'tokens', label: 'tokens N', slider: { whole: true, stops: [1, 2, 3, 4, 5, 8, 10, 15, 20, 30, 40, 50] } },
  num_classes: { id: 'classes', label: 'classes M', slider: { whole: true } },
  dim: { label: 'dimension d', slider: { whole: true } },
  exponent: { label: 'Zipf exponent', isFirst: true },
  seed: { id: 'draw', label: 'draw (seed)', isFirst: true, slider: { whole: true, high: 200 } },
  learning_rate: { id: 'rate', label: 'rate η', slider: { log: true, low: 0.01, high: 1000 } },
  batch_size: { id: 'batch', label: 'batch size', options: [1, 4, 16, 64] },
};

// Where a slider can go: from bound to bound, or around the usual value.
function slideOf({ form, low, high, usual }) {
  if (form === 'whole' || usual === null) return null; // another whole number compiles another program
  if (low !== null && high !== null) return low > 0 && high / low > 1000 ? { log: true } : { step: (high - low) / 200 };
  if (!(usual > 0)) return null;
  return { log: true, low: Math.max(usual / 100, low ?? 0), high: Math.min(usual * 100, high ?? Infinity) };
}

// A text as the list, the number or the word that it says; nothing where it is empty.
function fromText(text) {
  const parts = text.split(',').map((part) => part.trim());
  if (text.trim() === '') return null;
  if (/^[[{]/.test(text.trim())) try { return JSON.parse(text); } catch { return text; }
  if (parts.some((part) => part === '' || !Number.isFinite(Number(part)))) return text.trim();
  return parts.length > 1 ? parts.map(Number) : Number(text);
}
const asText = (value) => (value === null || value === undefined ? '' : Array.isArray(value) && value.every((item) => typeof item === 'number') ? value.join(', ') : typeof value === 'object' ? JSON.stringify(value) : String(value));

// The control of a field, as the catalogue describes it.
function fieldControl(field, name, { id, path, whose, table, edit, parts }) {
  const look = LOOKS[name] ?? {}, label = look.label ?? name.replaceAll('_', ' ');
  const write = (value) => { if ((value === null || value === undefined) && !field.is_required) delete table()[name]; else table()[name] = value; };
  const shared = { id, label, name: whose ? `${label} ${whose}` : label, help: field.help, path, read: () => table()[name] ?? field.usual, write, edit, parts };
  if (field.form === 'truth') return checkField(shared);
  if (field.form === 'choice') return selectField({ ...shared, options: field.choices.map((value) => [value, String(value)]) });
  if (look.options) return selectField({ ...shared, options: [...(field.is_required ? [] : [[null, 'all the data']]), ...look.options.map((value) => [value, String(value)])] });
  if (field.form === 'text') {
    const list = field.choices.length ? `${id}-choices` : null, made = plainField({ ...shared, type: 'text', more: { list, autocomplete: 'off', maxlength: 4000 }, take: fromText, say: asText });
    if (list) made.row.append(make('datalist', { id: list }, ...field.choices.map((value) => make('option', { value }))));
    return made;
  }
  const slider = look.slider === undefined || field.usual === null ? slideOf(field) : look.slider;
  return numberField({ ...shared, min: field.low, max: field.high, step: field.form === 'whole' ? 1 : 'any', slider });
}

const entryName = (name, { help }) => (help ? `${name}: ${help.replace(/\.$/, '')}` : name);
const optionsOf = (kind) => Object.entries(catalogue[kind]).map(([name, entry]) => make('option', { value: name, title: entry.help }, entryName(name, entry)));

export class Controls {
  // page: { state, edit(parts, { final, key }), load(preset), note(text) }
  constructor(page) {
    this.page = page;
    this.fields = [];
    this.sections = {};
    this.isOpen = new Set(); // tables of which all fields are shown
    const runs = () => ['runs'];
    const field = (holder, options) => {
      const made = numberField({ edit: (...args) => page.edit(...args), ...options });
      holder.append(made.row);
      this.fields.push({ ...made, holder });
    };
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
    const { page } = this, final = { final: true }, both = ['plane', 'runs'];
    const choose = (id, write, parts) => $(id).addEventListener('change', () => { write($(id).value); page.edit(parts, { ...final, key: id }); });
    $('kind').prepend(...optionsOf('problem'));
    $('system').replaceChildren(...optionsOf('system'));
    choose('kind', (kind) => {
      const { name } = page.state.problem; // the problem of a file goes by the file's name
      page.state.problem = { ...tableOf('problem', kind), ...(kind === 'own' ? { name } : {}) };
      page.state.steps = Math.min(page.state.steps, LIMITS.steps);
      page.state.preset = null;
    }, both);
    choose('system', (kind) => { page.state.system = tableOf('system', kind); }, both);
    for (const [id, kind, name] of [['add-record', 'observable', 'record'], ['add-event', 'event', 'events']]) {
      $(id).append(...optionsOf(kind));
      $(id).closest('.row').hidden = !Object.keys(catalogue[kind]).length;
      choose(id, (chosen) => { if (!page.state[name].some((item) => item.kind === chosen)) page.state[name].push(tableOf(kind, chosen)); $(id).value = ''; }, ['runs']);
    }
    choose('paper-name', (name) => { page.state.problem.name = name; }, ['plane', 'runs']);
    choose('overlay', (overlay) => { page.state.view.overlay = overlay; }, ['plane']);
    choose('loss-scale', (kind) => { page.state.show.loss = kind; }, []);
    choose('step-scale', (kind) => { page.state.show.axis = kind; }, []);
    choose('follow', (token) => { page.state.show.follow = token === '' ? null : Number(token); }, []);
    $('paper-name').append(...Object.entries(DRAWS).map(([value, words]) => make('option', { value }, words)));
    $('preset').addEventListener('change', () => page.load($('preset').value));
    $('reset').addEventListener('click', () => { page.load(page.state.preset); $('preset').focus(); });
    $('add-run').addEventListener('click', () => {
      const last = Number(page.state.runs.at(-1).learning_rate) || 1;
      page.state.runs.push({ kind: 'gd', learning_rate: Math.min(+(last * 3).toPrecision(3), LIMITS.rates[1]) });
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
    if (!fieldsOf('dynamics', run).learning_rate?.takes_list || typeof run.learning_rate !== 'number') return this.page.note(`The learning rate of ${run.kind} cannot change during the run.`);
    if (step < 1 || step >= state.steps) return this.page.note('Move the step cursor to the step at which the learning rate should change.');
    const changes = (run.changes ?? []).filter((change) => change.step !== step);
    if (changes.length >= LIMITS.changes) return this.page.note(`A run changes its learning rate at most ${LIMITS.changes} times.`);
    const before = changes.filter((change) => change.step < step).at(-1)?.rate ?? run.learning_rate;
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
    const free = isReplay(state) ? 'A run from a file, as it was recorded. Choose “your own problem” to train its problem again.' : 'Change anything: the address of this page holds all settings.';
    const words = preset ? preset.text : free;
    setText($('commentary'), preset && isChanged ? `Settings changed. About the preset: ${words}` : words);
    $('reset').hidden = !(preset && isChanged);
    $('kind').value = kind;
    for (const option of $('kind').options) if (['table', 'own', 'replay'].includes(option.value)) option.hidden = option.value !== kind && !(option.value === 'own' && kind === 'replay');
    for (const id of ['moves', 'runs', 'training', 'more']) $(id).hidden = isReplay(state);
    for (const element of document.querySelectorAll('[data-kind]')) element.hidden = element.dataset.kind !== kind;
    for (const element of document.querySelectorAll('[data-plane]')) element.hidden = !hasPlane;
    $('view-fields').hidden = !hasPlane;
    $('plane-start').hidden = !hasPlane;
    $('random-start').hidden = hasPlane;
    if (kind === 'paper') $('paper-name').value = state.problem.name;
    $('system').value = state.system.kind;
    $('overlay').value = state.view.overlay;
    $('loss-scale').value = state.show.loss;
    $('step-scale').value = state.show.axis;
    this.showTokens();
    for (const field of this.fields) if (!field.holder.hidden) field.show();
    this.showSections();
    $('add-run').disabled = state.runs.length >= LIMITS.runs;
    $('add-record').disabled = state.record.length >= LIMITS.extra;
    $('add-event').disabled = state.events.length >= LIMITS.extra;
  }

  showTokens() {
    const names = this.page.data?.plane.names ?? [], text = JSON.stringify(names);
    if (this.tokens !== text) $('follow').replaceChildren(make('option', { value: '' }, 'none'), ...names.map((name, token) => make('option', { value: token }, name)));
    this.tokens = text;
    $('follow').value = this.page.state.show.follow ?? '';
  }

  // Rows are made again only when their number or form changes, so that the focus stays where it is.
  section(id, form, build) {
    const text = JSON.stringify([form, [...this.isOpen]]);
    if (this.sections[id]?.form !== text) {
      const focused = document.activeElement?.id;
      this.sections[id] = { form: text, rows: build() };
      $(id).replaceChildren(...this.sections[id].rows.map(({ row }) => row));
      if (focused) document.getElementById(focused)?.focus();
    }
    this.sections[id].rows.forEach((row, k) => row.show(k));
  }

  showSections() {
    const { page } = this, { problem, system, runs, show, record, events } = page.state, both = () => ['plane', 'runs'];
    const form = (kind, table) => [table.kind, ...partsOf(kind, table).map((part) => table[part])];
    this.section('problem-fields', form('problem', problem), () => this.rows('problem', { table: () => page.state.problem, at: 'problem', parts: both, idOf: (name) => name }));
    this.section('system-fields', form('system', system), () => this.rows('system', { table: () => page.state.system, at: 'system', parts: both, idOf: (name) => `system-${name}`, after: startAtRandom }));
    const focus = Math.min(show.focus, runs.length - 1);
    this.section('run-list', runs.map((run, k) => [form('dynamics', run), this.needsKey(k), (run.changes ?? []).map((change) => change.step)]), () => runs.map((_, k) => this.runRow(k)));
    this.sections['run-list'].rows.forEach((row, k) => row.choose(k === focus));
    for (const [name, kind] of [['record', 'observable'], ['events', 'event']]) {
      this.section(`${name}-list`, page.state[name].map((item) => item.kind), () => page.state[name].map((_, k) => this.itemRow(name, kind, k)));
    }
  }

  needsKey(k) { return Boolean(this.page.data?.runs[k]?.needs_key && this.page.data.state.runs[k]?.kind === this.page.state.runs[k].kind); }

  // The controls of a table: what it must be given first, the rest on demand.
  rows(kind, { table, at, parts, idOf, whose = '', after = () => {} }) {
    const { page } = this, edit = (...args) => { after(page.state); page.edit(...args); };
    const chosen = partsOf(kind, table()).map((part) => selectField({
      id: idOf(part), label: part, name: whose ? `${part} ${whose}` : part, help: null, path: `${at}.${part}`,
      options: [...(part === 'sampling' ? [[undefined, 'everything, or by batch size']] : []), ...Object.entries(catalogue[part]).map(([name, entry]) => [name, entryName(name, entry)])],
      read: () => table()[part], write: (name) => this.choosePart(kind, table(), part, name), edit, parts,
    }));
    const isOwn = catalogue[kind][table().kind]?.is_own, isFirst = (name, field) => field.is_required || LOOKS[name]?.isFirst || isOwn || name in table();
    const control = ([name, field]) => fieldControl(field, name, { id: idOf(LOOKS[name]?.id ?? name), path: `${at}.${name}`, whose, table, edit, parts });
    const fields = Object.entries(fieldsOf(kind, table())).filter(([name]) => !(kind === 'dynamics' && name === 'seed'));
    const first = fields.filter(([name, field]) => isFirst(name, field)).map(control);
    const rest = fields.filter(([name, field]) => !isFirst(name, field)), others = [...(isOwn ? [] : chosen), ...rest.map(control)];
    if (isOwn) first.push(...chosen);
    if (!others.length) return first;
    const few = others.length === 1 && rest.length === 1 && rest[0][1].form !== 'text', isOpen = few || this.isOpen.has(at);
    const more = make('button', { type: 'button', id: idOf('more'), class: 'more', 'aria-expanded': String(isOpen), onclick: () => {
      if (isOpen) this.isOpen.delete(at); else this.isOpen.add(at);
      this.showSections();
    } }, isOpen ? 'fewer settings' : `${others.length} more settings`);
    return [...first, ...(isOpen ? others : []), ...(few ? [] : [{ row: more, show: () => {} }])];
  }

  // Fields of the part that was chosen before go with it.
  choosePart(kind, table, part, name) {
    const before = fieldsOf(kind, table);
    if (name === undefined) delete table[part]; else table[part] = name;
    const now = fieldsOf(kind, table);
    for (const field of Object.keys(before)) if (!(field in now)) delete table[field];
    complete(kind, table);
  }

  runRow(k) {
    const { page } = this, run = () => page.state.runs[k], edit = (...args) => page.edit(...args), whose = `of run ${k + 1}`, parts = () => ['runs'];
    const method = make('select', { id: `method-${k}`, 'aria-label': `Dynamics ${whose}`, 'data-path': `runs.${k}.kind`, onchange: () => {
      const { seed, learning_rate: rate } = run();
      page.state.runs[k] = { ...tableOf('dynamics', method.value, typeof rate === 'number' ? { learning_rate: rate } : {}), ...(seed === undefined ? {} : { seed }) };
      edit(['runs'], { final: true, key: `method-${k}` });
    } }, ...optionsOf('dynamics'));
    const focus = make('input', { type: 'radio', name: 'focus', id: `focus-${k}`, 'aria-label': `Show the margins ${whose}`, title: 'Show its margins', onchange: () => {
      page.state.show.focus = k;
      edit([], { final: true, key: 'focus' });
    } });
    const remove = this.remover(`Remove run ${k + 1}`, () => { page.state.runs.splice(k, 1); }, `method-${Math.max(k - 1, 0)}`);
    const fields = this.rows('dynamics', { table: run, at: `runs.${k}`, parts, idOf: (name) => `${name}-${k}`, whose });
    if (this.needsKey(k)) fields.push(numberField({
      id: `seed-${k}`, label: 'seed', name: `seed ${whose}`, path: `runs.${k}.seed`, min: 0, max: 2147483647, step: 1, slider: { whole: true, high: 100 },
      read: () => run().seed ?? 0, write: (v) => { run().seed = v; }, edit, parts,
    }));
    const row = make('li', {}, make('div', { class: 'run-head' }, focus, method, remove), ...fields.map((field) => field.row));
    row.style.borderColor = RUNS[k];
    if (run().changes?.length) {
      row.append(make('ul', { class: 'changes' }, ...run().changes.map(({ step }, i) => {
        const then = numberField({
          id: `then-${k}-${i}`, label: `η from step ${step}`, name: `η from step ${step}, run ${k + 1}`, path: `runs.${k}.changes.${i}.rate`, min: 0, max: LIMITS.rates[1], slider: LOOKS.learning_rate.slider,
          read: () => run().changes[i].rate, write: (v) => { run().changes[i].rate = v; }, edit, parts,
        });
        fields.push(then);
        return make('li', {}, then.row, make('button', { type: 'button', 'aria-label': `Remove the change of run ${k + 1} at step ${step}`, onclick: () => {
          run().changes.splice(i, 1);
          if (!run().changes.length) delete run().changes;
          edit(['runs'], { final: true, key: 'change' });
          $(`rate-${k}`)?.focus();
        } }, 'remove this change'));
      })));
    }
    const show = () => { method.value = run().kind; remove.disabled = page.state.runs.length === 1; for (const field of fields) field.show(); };
    return { row, show, choose: (isFocus) => { focus.checked = isFocus; } };
  }

  // A trace or an event beside those that are always there.
  itemRow(name, kind, k) {
    const { page } = this, item = () => page.state[name][k], list = page.state[name];
    const fields = this.rows(kind, { table: item, at: `${name}.${k}`, parts: () => ['runs'], idOf: (field) => `${name}-${field}-${k}`, whose: `of ${item().kind}` });
    const remove = this.remover(`Remove ${item().kind}`, () => { list.splice(k, 1); }, name === 'record' ? 'add-record' : 'add-event');
    const head = make('div', { class: 'item-head' }, make('span', { title: catalogue[kind][item().kind]?.help }, item().kind), remove);
    return { row: make('li', {}, head, ...fields.map((field) => field.row)), show: () => { for (const field of fields) field.show(); } };
  }

  remover(words, splice, next) {
    return make('button', { type: 'button', 'aria-label': words, title: 'Remove', onclick: () => {
      splice();
      this.page.edit(['runs'], { final: true, key: 'remove' });
      $(next)?.focus();
    } }, '×');
  }

  // Marks what the server refused; its messages begin with the field's path.
  refuse(text) {
    for (const input of document.querySelectorAll('[data-path]')) input.toggleAttribute('aria-invalid', false);
    if (!text) return;
    for (const input of document.querySelectorAll('[data-path]')) {
      if (text.split('; ').some((fault) => fault.startsWith(`${input.dataset.path}:`) || fault.startsWith(`${input.dataset.path}.`))) input.setAttribute('aria-invalid', 'true');
    }
  }
}

// Layer norm cannot begin at W = 0.
function startAtRandom(state) { if (!isPlain(state) && state.system.layer_norm && !state.start.scale) state.start.scale = 1; }

// Only what differs is written: a live region would read it out again.
export function setText(element, words) { if (element.textContent !== words) element.textContent = words; }

export { copy, make };
