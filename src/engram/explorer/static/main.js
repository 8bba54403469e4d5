// The page: one state; every change asks the server, every answer is drawn at once.

import { Controls, copy, make, setText } from './controls.js';
import { save, toJson, toPng, toSvg } from './exports.js';
import { RUNS, SHAPES, number, tokenColour } from './looks.js';
import { GIVEN } from './given.js';
import { prepareGuide } from './guide.js';
import { Kept } from './kept.js';
import { Panel } from './pens.js';
import * as P from './pictures.js';
import { Pushes } from './pushes.js';
import { Server } from './server.js';
import { forServer, fromHash, fromPreset, isPlain, isReplay, toHash } from './state.js';
import { describe, readOut } from './words.js';

const $ = (id) => document.getElementById(id);
const calm = matchMedia('(prefers-reduced-motion: reduce)');

const page = {
  state: null,
  data: null, // what is drawn: { state, plane, runs }
  presets: [],
  redraws: 0,
  latencies: [], // ms from a change to its drawing
  edit, load, note,
  get cursor() { return now(); },
  isSettled: () => !server.out && server.isIdle && !frameAsked && !dirty && !wordsTimer,
  isExplained: () => Boolean(page.data?.runs.every((run) => run.causes)),
};
globalThis.engram = page; // for the curious, and for tests

let controls, server, kept, showGuide, pushes, asked = 0, areControlsOld = false, lastPush = { key: null, at: 0 }, frameAsked = false, dirty = false, panels = {}, fans = [], extras = [];

// --- changes ---

function edit(parts, { final, key }) {
  const { state } = page;
  note(null);
  state.show.focus = Math.min(state.show.focus, state.runs.length - 1);
  if (Number.isInteger(state.steps) && state.show.cursor >= state.steps) state.show.cursor = null;
  if (parts.length) { asked ||= performance.now(); dim(SOON); server.ask(forServer(copy(state)), parts); }
  else if (page.data) { page.data.state.show = copy(state.show); isDescribed = false; redraw(); }
  if (final) { showControls(); remember(key); } else areControlsOld = true; // shown with the answer: layout is slow
}

// What is drawn is not what the controls say: at once for another preset, or when the answer takes long.
const SOON = 300; // ms
let dimming = null;
function dim(after = 0) {
  if (!after) document.body.classList.add('stale');
  else dimming ??= setTimeout(dim, after);
}
function undim() {
  clearTimeout(dimming);
  dimming = null;
  document.body.classList.remove('stale');
}

function load(id) {
  const preset = page.presets.find((each) => each.id === id);
  if (!preset) { page.state.preset = null; showControls(); remember('preset'); return; }
  play(false);
  page.state = fromPreset(preset);
  dim();
  edit(['plane', 'runs'], { final: true, key: 'preset' });
}

// The address follows the state; the back button goes back change by change, not pixel by pixel.
function remember(key) {
  const hash = addressOf(page.state), clock = performance.now();
  if (hash === location.hash) return;
  const isSame = key === lastPush.key && clock - lastPush.at < 1000 && key !== 'preset';
  write(hash, isSame);
  lastPush = { key, at: clock };
}

const addressOf = (state) => toHash(state) + (kept?.address ?? '');

// A page within another's text (`srcdoc`) has no address of its own.
function write(hash, isSame) {
  if (location.protocol !== 'about:') history[isSame ? 'replaceState' : 'pushState'](null, '', hash);
}

let cursorTimer = null;
function rememberCursor() {
  clearTimeout(cursorTimer);
  // Only the cursor: the rest of the address is for finished changes.
  cursorTimer = setTimeout(() => {
    const { cursor } = page.state.show, rest = location.hash.replace(/&t=[^&]*/, '');
    if (rest) write(cursor === null ? rest : `${rest}&t=${cursor}`, true);
  }, 300);
}

let handled = null;
function fromAddress() {
  handled = location.hash;
  dragging = false;
  const { state, faults } = fromHash(location.hash || GIVEN?.address || `#preset=${page.presets[0].id}`, page.presets);
  page.state = state;
  play(false);
  dim();
  kept.fromAddress(location.hash, page.presets);
  edit(['plane', 'runs'], { final: false });
  showControls();
  if (faults.length) note(`This link has errors; defaults are used instead: ${faults.join('; ')}.`);
}

function showControls() {
  areControlsOld = false;
  const preset = page.presets.find((each) => each.id === page.state.preset);
  const bare = (state) => { const { show, ...rest } = state; return toHash({ ...rest, show: { ...show, cursor: null, focus: 0, follow: null, pushes: null } }); };
  const isChanged = preset && bare(fromPreset(preset)) !== bare(page.state);
  // The server knows which problems have a plane; until it has answered, the last one stands.
  controls.show({ hasPlane: isPlain(page.state) && (page.data?.plane.has_plane ?? true), isChanged, preset });
  $('pushes-box').open = arePushesOpen();
  $('cursor').max = shownSteps();
  if (document.activeElement !== $('cursor')) $('cursor').value = now();
  placeHandle();
}

// --- answers ---

// What is drawn of an answer.
function partsIn(header, arrays) {
  const under = (prefix) => Object.fromEntries(Object.entries(arrays).filter(([name]) => name.startsWith(prefix)).map(([name, values]) => [name.slice(prefix.length), values]));
  return {
    ...(header.plane ? { plane: { ...header.plane, ...under('plane.') } } : {}),
    ...(header.runs ? { runs: header.runs.map((run, k) => ({ ...run, ...under(`runs.${k}.`) })) } : {}),
  };
}

function answer(state, parts, header, arrays) {
  const old = page.data, data = { state: { ...copy(page.state), ...state }, plane: old?.plane, runs: old?.runs, asked: header.runs ? state : old?.asked };
  Object.assign(data, partsIn(header, arrays));
  if (!data.plane || !data.runs) return;
  if (isReplay(data.state)) {
    data.state.runs = data.runs.map(({ name }) => ({ kind: name }));
    page.state.steps = data.state.steps = Math.max(1, Math.ceil(data.runs[0].ended_at));
  }
  page.data = data;
  if (header.runs) askLater(data);
  refuse(null);
  if (server.isIdle) undim();
  const shape = ({ plane, runs, state: { record } }) => JSON.stringify([plane.has_plane, plane.has_plane || runs.length, runs.map((run) => run.needs_key), record.map(({ kind }) => kind)]);
  const isOther = !old || shape(old) !== shape(data);
  if (isOther) arrange();
  dirty = true;
  isDescribed = false;
  if (isFirstLook) { isFirstLook = false; play(true); }
  drawNow(); // at once: answers are rarer than frames
}

// What takes long comes after everything else, once the page is at rest.
let laterTimer = null;
function askLater(data) {
  clearTimeout(laterTimer);
  laterTimer = setTimeout(() => {
    if (data.runs.some((run) => run.has_later)) addLater(data, 'sharpness');
    if (isReplay(data.state)) explain(data);
  }, 300);
}

async function addLater(data, part) {
  const { found, fault } = await server.later(part, data.asked);
  if (page.data !== data && page.data.runs !== data.runs) return; // something else is drawn by now
  if (found?.header.causes) data.runs.forEach((run, k) => { run.causes = found.header.causes[k]; });
  for (const [name, values] of Object.entries(found?.arrays ?? {})) data.runs[name.split('.')[1]][name.split('.')[2]] = values;
  for (const run of data.runs) { if (part === 'sharpness') run.has_later = false; if (part === 'causes') run.isAsked = false; }
  if (fault) note(fault);
  isDescribed = false;
  redraw();
}

// Who pushed whom in the spikes of the runs that are drawn.
function explain(data = page.data) {
  if (!data.runs.some((run) => run.num_spikes) || data.runs.some((run) => run.isAsked || run.causes)) return;
  for (const run of data.runs) run.isAsked = true;
  isDescribed = false;
  redraw();
  addLater(data, 'causes');
}

// The run whose margins are shown.
function choose(k) {
  page.state.show.focus = k;
  edit([], { final: true, key: 'focus' });
}

function remeasure() {
  for (const panel of [...Object.values(panels), ...fans, ...extras, ...kept.panels]) panel.measure();
  pushes.measure();
  redraw();
}

function redraw() { dirty = true; askFrame(); }
function askFrame() { if (!frameAsked) { frameAsked = true; requestAnimationFrame(drawNow); } }

function drawNow() {
  frameAsked = false;
  const { data } = page;
  if (!data) return;
  const shown = data.plane.has_plane ? ['plane', 'loss', 'error', 'margins', 'sharpness'] : ['loss', 'error', 'sharpness'];
  for (const panel of [...shown.map((name) => panels[name]), ...fans, ...extras, ...kept.panels]) if (dirty) panel.base(); else panel.cursor();
  if (dirty) {
    if (areControlsOld || Number($('cursor').max) !== shownSteps()) showControls(); else placeHandle();
    page.redraws += 1;
    if (page.redraws === 1) showGuide();
    if (asked) { page.latencies.push(performance.now() - asked); asked = 0; }
    if (page.latencies.length > 500) page.latencies.shift();
  }
  dirty = false;
  tellSoon();
}

// Words and tables follow at most ten times a second: laying them out takes longer than drawing.
let wordsTimer = null, wordsAt = 0, isDescribed = false;
function tellSoon() {
  if (wordsTimer) return;
  wordsTimer = setTimeout(() => {
    wordsTimer = null;
    wordsAt = performance.now();
    if (!isDescribed) describe(page.data, fans, extras, { go: moveCursor, choose, explain });
    isDescribed = true;
    readOut(page.data, now());
    pushes.see(page.data, now(), Math.min(page.data.state.show.focus, page.data.runs.length - 1));
  }, Math.max(0, wordsAt + 100 - performance.now()));
}

function makePanels() {
  const cursor = now, focus = () => Math.min(page.data.state.show.focus, page.data.runs.length - 1);
  const read = (series, when = (run) => run.step) => page.data.runs.map((run, k) => {
    if (!run[series] || run[series].shape.length > 1) return null;
    const times = when(run), at = P.recordAt({ step: times }, cursor());
    return { value: run[series][at], colour: RUNS[k], shape: SHAPES[k], when: times[at] };
  }).filter(Boolean);
  const tokens = (k, series = 'margins') => {
    const run = page.data.runs[k], at = P.recordAt(run, cursor()), values = run[series], count = values?.shape[1];
    if (!count || count > 8) return [];
    return Array.from({ length: count }, (_, token) => ({ value: values[at * count + token], colour: tokenColour(token, count), shape: 'disc', when: run.step[at] }));
  };
  const followToken = (panel, run) => panel.canvas.addEventListener('click', (event) => {
    if (!page.data) return;
    const box = panel.canvas.getBoundingClientRect(), { show } = page.state;
    const token = P.tokenAt(box.width, box.height, page.data, run(), event.clientX - box.left, event.clientY - box.top);
    if (token === null) return;
    show.follow = token === show.follow ? null : token;
    edit([], { final: true, key: 'follow' });
  });
  const trace = (id, draw, yAxis, points) => new Panel($(id), (pen, w, h) => draw(pen, w, h, page.data),
    (pen, w, h) => P.drawTraceCursor(pen, w, h, page.data, cursor(), yAxis(page.data, h), points()));
  panels = {
    plane: new Panel($('plane'), (pen, w, h) => P.drawPlane(pen, w, h, page.data), (pen, w, h) => P.drawPlaneCursor(pen, w, h, page.data, cursor())),
    loss: trace('loss', P.drawLoss, P.lossAxis, () => read('loss')),
    error: trace('error', P.drawError, P.errorAxis, () => read('error')),
    margins: trace('margins', (pen, w, h, data) => P.drawMargins(pen, w, h, data, focus()), (data, h) => P.marginAxis([data.runs[focus()]], h), () => tokens(focus())),
    sharpness: trace('sharpness', P.drawSharpnessTrace, P.sharpnessAxis, () => read('sharpness', (run) => run.sharpness_step)),
  };
  const boxed = (id, draw, yAxis, points) => {
    const canvas = make('canvas', { role: 'img', tabindex: 0, id, 'aria-labelledby': `${id}-title` });
    follow(canvas);
    const panel = new Panel(canvas, (pen, w, h) => draw(pen, w, h, page.data), (pen, w, h) => P.drawTraceCursor(pen, w, h, page.data, cursor(), yAxis(h), points()));
    return Object.assign(panel, { element: make('div', { class: 'panel' }, make('h2', { id: `${id}-title` }), canvas) });
  };
  followToken(panels.margins, focus);
  page.makeFans = () => page.data.runs.map((_, k) => {
    const fan = boxed(`fan-${k}`, (pen, w, h, data) => P.drawMargins(pen, w, h, data, k), (h) => P.marginAxis([page.data.runs[k]], h), () => tokens(k));
    followToken(fan, () => k);
    return fan;
  });
  page.makeExtras = () => page.data.state.record.map(({ kind: name }) => {
    const points = () => [...read(`record.${name}`), ...tokens(focus(), `record.${name}`)];
    return Object.assign(boxed(`record-${name}`, (pen, w, h, data) => P.drawExtra(pen, w, h, data, name), (h) => P.extraAxis(page.data, h, name), points), { name });
  });
}

// With a plane: the plane, and margins of one run beside it. Without: margins of every run instead.
function arrange() {
  const { plane } = page.data;
  $('plane-box').hidden = !plane.has_plane;
  $('margins-box').hidden = !plane.has_plane;
  $('fans').hidden = plane.has_plane;
  fans = plane.has_plane ? [] : page.makeFans();
  extras = page.makeExtras();
  $('fans').replaceChildren(...fans.map((fan) => fan.element));
  $('extras').replaceChildren(...extras.map((extra) => extra.element));
  for (const panel of [...Object.values(panels), ...fans, ...extras]) panel.measure();
  showControls();
}

// --- messages ---

// Good to know, until the next change.
function note(text) {
  $('note').hidden = !text;
  setText($('note'), text ?? '');
}

// What was refused, until an answer comes.
function refuse(text) {
  $('message').hidden = !text;
  setText($('message'), text ?? '');
  controls.refuse(text);
}

// --- the step cursor ---

// Of what is drawn, which may lag behind what is asked for.
const shownSteps = () => page.data?.state.steps ?? page.state.steps;
const now = () => Math.min(page.state.show.cursor ?? Infinity, shownSteps());

function moveCursor(step) {
  const { state } = page;
  const at = Math.min(Math.max(Math.round(step), 0), shownSteps());
  state.show.cursor = at < shownSteps() ? at : null;
  if (page.data) page.data.state.show.cursor = state.show.cursor;
  $('cursor').value = at;
  askFrame();
  rememberCursor();
}

function follow(canvas) {
  const move = (event) => {
    if (!page.data || playing) return;
    const box = canvas.getBoundingClientRect();
    moveCursor(P.stepAxis(page.data, box.width).back(event.clientX - box.left));
  };
  canvas.addEventListener('pointermove', move);
  canvas.addEventListener('pointerdown', move);
}

function followPlane(event) {
  if (!page.data || dragging || playing) return;
  const box = $('plane').getBoundingClientRect(), { x, y } = P.planeAxes(page.data.state.view, box.width, box.height);
  const px = event.clientX - box.left, py = event.clientY - box.top;
  let best = [25, null];
  for (const run of page.data.runs) for (let i = 0; i < run.step.length; i++) {
    const away = Math.hypot(x(run.path[2 * i]) - px, y(run.path[2 * i + 1]) - py);
    if (away < best[0]) best = [away, run.step[i]];
  }
  if (best[1] !== null) moveCursor(best[1]);
}

let playing = null;
function play(isOn) {
  if (playing) cancelAnimationFrame(playing.frame);
  playing = null;
  $('play').textContent = isOn ? 'Pause' : 'Play';
  $('play').setAttribute('aria-pressed', String(isOn));
  if (!isOn) return;
  if (now() >= shownSteps()) moveCursor(0);
  playing = { began: performance.now(), from: now() };
  // Eight seconds for a whole run, not below three steps a second; in calm mode two jumps a second.
  const rate = Math.max(shownSteps() / 8, 3);
  const next = (clock) => {
    if (!playing) return;
    const seconds = (clock - playing.began) / 1000, shown = calm.matches ? Math.floor(2 * seconds) / 2 : seconds;
    moveCursor(playing.from + Math.floor(rate * shown));
    if (now() >= shownSteps()) play(false); else playing.frame = requestAnimationFrame(next);
  };
  playing.frame = requestAnimationFrame(next);
}

function onKey(event) {
  const { target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || $('python-dialog').open) return;
  if (target.matches('input, select, textarea, #handle') || target.closest('.scroll, #events ul')) return;
  const jump = event.shiftKey ? 10 : 1;
  const moves = { ArrowLeft: now() - jump, ArrowRight: now() + jump, Home: 0, End: shownSteps() };
  if (event.key in moves) { play(false); moveCursor(moves[event.key]); event.preventDefault(); }
  if (event.key === ' ' && !target.matches('button, a, summary')) { play(!playing); event.preventDefault(); }
}

// --- the start ---

let dragging = false, placedAt = 0;

function placeHandle() {
  const handle = $('handle'), { w, h } = panels.plane?.box ?? {};
  if (!page.state || !w) return;
  placedAt = performance.now();
  const { x, y } = P.planeAxes((page.data?.state ?? page.state).view, w, h), { a, b } = page.state.start;
  const [px, py] = [x(a), y(b)], isSeen = px >= 0 && px <= w && py >= 0 && py <= h;
  handle.hidden = !isSeen && document.activeElement !== handle;
  handle.style.transform = `translate(${Math.min(Math.max(px, 0), w)}px, ${Math.min(Math.max(py, 0), h)}px)`;
  handle.setAttribute('aria-label', `Start of training, at γ₁ = ${number(a)}, γ₂ = ${number(b)}`);
}

function dragTo(event, isLast) {
  const box = $('plane').getBoundingClientRect(), { x, y } = P.planeAxes(page.data.state.view, box.width, box.height);
  const digits = (v) => +v.toPrecision(4);
  page.state.start.a = digits(x.back(Math.min(Math.max(event.clientX - box.left, 0), box.width)));
  page.state.start.b = digits(y.back(Math.min(Math.max(event.clientY - box.top, 0), box.height)));
  edit(['runs'], { final: isLast, key: 'drag' });
  if (performance.now() - placedAt > 40) placeHandle(); // otherwise the next answer, due soon, places it
}

function wireStart() {
  const handle = $('handle'), plane = $('plane');
  const begin = (element) => (event) => {
    if (event.button !== 0 || !page.data) return;
    if (element === plane && event.pointerType === 'touch') return; // a finger scrolls; the dot can be dragged
    dragging = true;
    handle.classList.add('dragging');
    element.setPointerCapture(event.pointerId);
    if (element === plane) dragTo(event, false);
    handle.focus({ preventScroll: true });
    event.preventDefault();
  };
  const end = (event) => {
    if (!dragging) return;
    dragging = false;
    handle.classList.remove('dragging');
    dragTo(event, true);
    lastPush.key = null;
  };
  for (const element of [handle, plane]) {
    element.addEventListener('pointerdown', begin(element));
    element.addEventListener('pointermove', (event) => { if (dragging) dragTo(event, false); else if (element === plane) followPlane(event); });
    element.addEventListener('pointerup', end);
    element.addEventListener('pointercancel', end);
  }
  // A finger on the plane scrolls; a tap sets the start.
  plane.addEventListener('click', (event) => { if (event.pointerType === 'touch' && page.data) dragTo(event, true); });
  handle.addEventListener('keydown', (event) => {
    const size = page.state.view.half / (event.shiftKey ? 10 : 100);
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (!moves) return;
    page.state.start.a = +(page.state.start.a + moves[0] * size).toPrecision(6);
    page.state.start.b = +(page.state.start.b + moves[1] * size).toPrecision(6);
    edit(['runs'], { final: true, key: 'start-keys' });
    event.preventDefault();
  });
}

function fit() {
  const { state, data } = page;
  if (!data?.plane.has_plane) return;
  let [x0, x1, y0, y1] = [0, 0, 0, 0];
  const take = (x, y) => { if (Number.isFinite(x) && Number.isFinite(y)) { x0 = Math.min(x0, x); x1 = Math.max(x1, x); y0 = Math.min(y0, y); y1 = Math.max(y1, y); } };
  for (const run of data.runs) for (let i = 0; i < run.path.length; i += 2) take(run.path[i], run.path[i + 1]);
  if (data.plane.minimiser) take(data.plane.minimiser[0], data.plane.minimiser[1]);
  const half = Math.max(x1 - x0, y1 - y0, 0.2) * 0.56;
  Object.assign(state.view, { x: +((x0 + x1) / 2).toPrecision(4), y: +((y0 + y1) / 2).toPrecision(4), half: Math.min(+half.toPrecision(4), 1e4) });
  edit(['plane'], { final: true, key: 'fit' });
}

// --- taking things away ---

async function copyText(text, what) {
  try { await navigator.clipboard.writeText(text); note(`${what} copied.`); }
  catch { note(`The browser could not copy this: ${text}`); }
}

function wireExports() {
  const drawn = () => ({ ...page.data.state, preset: page.state.preset });
  const python = () => server.python(forServer(page.data.state));
  const orSay = (work) => async () => {
    if (!page.data) return note('Nothing is drawn yet.');
    try { return await work(); } catch (error) { return refuse(error.message); }
  };
  $('copy-link').addEventListener('click', () => { write(addressOf(page.state), true); copyText(location.href.split('#')[0] + addressOf(page.state), 'Link'); });
  $('save-png').addEventListener('click', orSay(async () => save('engram.png', await toPng(page.data))));
  $('save-svg').addEventListener('click', orSay(async () => save('engram.svg', toSvg(page.data), 'image/svg+xml')));
  $('save-json').addEventListener('click', orSay(async () => save('engram.json', toJson(page.data, await python(), location.href.split('#')[0] + toHash(drawn())), 'application/json')));
  $('show-python').addEventListener('click', orSay(async () => { $('python-text').value = await python(); $('python-dialog').showModal(); }));
  $('copy-python').addEventListener('click', () => copyText($('python-text').value, 'Python lines'));
  $('save-python').addEventListener('click', () => save('engram_run.py', $('python-text').value, 'text/x-python'));
  $('close-python').addEventListener('click', () => $('python-dialog').close());
}

// --- the beginning ---

// On a phone the controls are folded away, so that the picture comes first.
function openControls(isOpen) {
  $('controls').classList.toggle('open', isOpen);
  $('open-controls').setAttribute('aria-expanded', String(isOpen));
  setText($('open-controls'), isOpen ? 'Hide settings' : 'Change settings');
}

// A first look at the page begins in motion: the preset plays once, until anything is touched.
function beginInMotion() {
  if (location.hash || calm.matches) return;
  const stops = ['pointerdown', 'keydown', 'wheel', 'input'];
  const stop = ({ target, key }) => {
    if (target.closest?.('#guide')) return;
    for (const name of stops) removeEventListener(name, stop, true);
    isFirstLook = false;
    if (target.id !== 'play' && key !== ' ') play(false); // those stop it themselves
  };
  for (const name of stops) addEventListener(name, stop, true);
  isFirstLook = true;
}
let isFirstLook = false;

// In the frame of another page there is little room; a link opens the same state in a tab of its own.
function beginInFrame() {
  if (globalThis.parent === globalThis) return;
  document.body.classList.add('framed');
  if (new URLSearchParams(location.search).has('told')) document.body.classList.add('told'); // beside a text that says the rest
  const link = $('alone');
  link.hidden = location.protocol === 'about:';
  link.addEventListener('pointerdown', () => { link.href = location.href.split('#')[0] + toHash(page.state); });
  link.href = location.href;
}

// Who pushes whom is shown at once for problems of one's own, and where there is room as no plane is drawn; otherwise when it is opened.
const isRoomy = () => isLocal && Boolean(page.data) && !page.data.plane.has_plane && !document.body.classList.contains('told');
const arePushesOpen = () => page.state.show.pushes ?? (['own', 'replay'].includes(page.state.problem.kind) || isRoomy());

function setStatus(words, kind = '') { setText($('status'), words); $('status').className = `chip ${kind}`; }

let warming = { done: 0, total: 0 }, isWaiting = false, isLocal = false;
function showStatus() {
  if (isLocal) return setStatus(isWaiting ? 'computing in this page' : 'computed in this page', isWaiting ? 'busy' : '');
  if (isWaiting) return setStatus('computing (a new shape compiles for a few seconds, once)', 'busy');
  if (warming.done < warming.total) return setStatus(`warming up, ${warming.done} of ${warming.total}: ${warming.now}`, 'busy');
  return setStatus('ready');
}

async function begin() {
  server = new Server({
    answer,
    refused: (text) => refuse(text),
    lost: () => setStatus('the server does not answer; trying again', 'bad'),
    back: (isNew) => { if (isNew) note('The server has restarted.'); refuse(null); },
    status: (now) => { warming = now; showStatus(); },
    source: (local) => { if (local !== isLocal) { isLocal = local; if (!server.isLost) showStatus(); } },
    waiting: (on) => { isWaiting = on; if (!server.isLost) showStatus(); },
  });
  page.presets = await server.begin();
  controls = new Controls(page);
  controls.showPresets(page.presets);
  makePanels();
  kept = new Kept({ cursor: now, measure: remeasure, remember: () => remember('keep'), compute: async (state) => {
    const { found, fault } = await server.once(['plane', 'runs'], forServer(state));
    if (fault) note(fault.text);
    return found && { state, ...partsIn(found.header, found.arrays) };
  } });
  pushes = new Pushes({
    ask: (state, more) => server.later('pushes', state, more),
    isAtRest: () => server.isIdle && !server.out && !page.data.runs.some((run) => run.isAsked || run.has_later),
    isLocal: () => isLocal,
    choose: (token) => { const { show } = page.state; show.follow = token === show.follow ? null : token; edit([], { final: true, key: 'follow' }); },
    toggle: (isOpen) => { if (isOpen !== arePushesOpen()) { page.state.show.pushes = isOpen; remember('pushes'); } },
  });
  $('keep').addEventListener('click', () => { if (page.data) kept.keep({ ...page.data, state: { ...copy(page.data.state), preset: page.state.preset } }); });
  $('kept-back').addEventListener('click', () => { page.state = copy(kept.data.state); dim(); edit(['plane', 'runs'], { final: true, key: 'kept' }); });
  $('kept-drop').addEventListener('click', () => { kept.keep(null); $('keep').focus(); });
  for (const id of ['loss', 'error', 'margins', 'sharpness']) follow($(id));
  wireStart();
  wireExports();
  $('fit').addEventListener('click', fit);
  $('play').addEventListener('click', () => play(!playing));
  $('cursor').addEventListener('input', () => { play(false); moveCursor(Number($('cursor').value)); });
  $('skip').addEventListener('click', (event) => { event.preventDefault(); openControls(true); $('controls').focus(); });
  $('open-controls').addEventListener('click', () => openControls(!$('controls').classList.contains('open')));
  addEventListener('keydown', onKey);
  addEventListener('popstate', () => { lastPush.key = null; fromAddress(); });
  addEventListener('hashchange', () => { if (location.hash !== handled && location.hash !== addressOf(page.state)) fromAddress(); });
  new ResizeObserver(remeasure).observe(document.querySelector('main'));
  beginInFrame();
  beginInMotion();
  showGuide = prepareGuide();
  fromAddress();
}

begin();
