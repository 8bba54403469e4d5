// What the pictures show, in words and numbers.

import { make, setText } from './controls.js';
import { runName } from './exports.js';
import { RUNS, SIGNS, number } from './looks.js';
import { MARKS, extraTitle, recordAt } from './pictures.js';

const $ = (id) => document.getElementById(id);
const list = (tokens, names) => `token${tokens.length === 1 ? '' : 's'} ${tokens.map((token) => names[token]).join(', ')}`;

// What is drawn, and what happened in it. `fans` are the pictures of margins, `extras` those asked for; `go(step)` moves the cursor, `choose(k)` shows the margins of a run, `explain()`, if it can be asked, asks who caused the spikes.
export function describe(data, fans, extras, { go, choose, explain }) {
  const { plane, runs, state } = data, [N, M, d] = plane.sizes;
  const shares = Array.from(plane.probs.slice(0, 5), (p) => number(p, 3)).join(', ');
  $('about-problem').textContent = `N = ${N} tokens, M = ${M} classes, d = ${d}${plane.output_dim === d ? '' : `, k = ${plane.output_dim}`}; frequencies ${shares}${N > 5 ? ', …' : ''}.`;
  if (plane.has_plane) {
    let words = plane.is_separable ? 'All tokens can be recalled at once; the dashed ray is the max-margin direction. ' : '';
    if (plane.minimiser_exists) {
      words += `The star is the minimiser of the loss (${number(plane.least_loss)}). `;
      if (plane.forgotten.length) words += `It forgets ${list(plane.forgotten, plane.names)}: error ${number(plane.error_at_minimiser, 3)}, at best ${number(plane.least_error, 3)}. `;
    }
    const base = state.view.overlay === 'sharpness' ? 'Grey and its lines: sharpness.' : 'Lines: the loss. Sectors: exactly which tokens are recalled.';
    if (!plane.minimiser_exists && !plane.is_separable) words += 'The loss falls for ever along the dotted ray, though not all tokens can be recalled. ';
    setText($('plane-words'), words + base);
    const ground = state.view.overlay === 'sharpness' ? 'the greyer, the sharper the loss' : 'the bluer, the more is recalled';
    setText($('plane-headline'), `Each step of training moves the dot${runs.length > 1 ? 's' : ''}; ${ground}`);
  }
  $('margins-title').textContent = `Margins of run ${Math.min(state.show.focus, runs.length - 1) + 1}: above 0 a token is recalled`;
  fans.forEach((fan, k) => { fan.element.querySelector('h2').textContent = `Margins: ${runName(state.runs[k])}`; });
  for (const extra of extras) setText(extra.element.querySelector('h2'), extraTitle(data, extra.name));
  const ends = runs.map((run, k) => `run ${k + 1} (${runName(state.runs[k])}) ends with loss ${number(run.loss.at(-1))}${run.error ? ` and error ${number(run.error.at(-1), 3)}` : ''}`);
  setText($('summary'), `${ends.join('; ')}.`);
  setText($('happened'), runs.map((run, k) => happenedIn(run, `Run ${k + 1} (${runName(state.runs[k])})`)).join(' '));
  showLegend(data, choose);
  const kinds = new Set(runs.flatMap((run) => run.events.map(({ kind }) => kind)));
  setText($('marks'), Object.entries(KINDS).filter(([kind]) => kinds.has(kind)).map(([kind, words]) => `${MARKS[kind]} ${words}`).join('  '));
  const broken = runs.flatMap((run, k) => (run.status === 'completed' ? [] : [`Run ${k + 1} ended at step ${number(run.ended_at)}: ${run.status_text}.`]));
  $('ended').hidden = !broken.length;
  setText($('ended'), broken.join(' '));
  showEvents(data, go, explain);
}

const KINDS = { spike: 'spike', forgotten: 'forgotten', relearnt: 're-learnt', perfect: 'all recalled' };

// A run in a sentence.
function happenedIn(run, name) {
  const said = [], times = (count, word) => `${count} ${word}${count === 1 ? '' : 's'}`;
  const { num_spikes: spikes, first_perfect: first, perfect_from: stays } = run;
  if (spikes) said.push(`has ${times(spikes, 'loss spike')}`);
  if (run.events.some(({ kind }) => kind === 'forgotten')) said.push('forgets what it knew');
  if (stays !== null && stays !== undefined) said.push(`recalls all tokens from step ${number(Math.ceil(stays))} on`);
  else if (first !== null && first !== undefined) said.push('recalls all tokens for a while');
  else if (run.error) said.push('does not recall all tokens');
  const end = `ends with loss ${number(run.loss.at(-1), 3)}`;
  return `${name} ${said.length ? `${said.join(', ')} and ` : ''}${end}.`;
}

// Which mark and colour is which run; a click shows its margins.
function showLegend({ runs, state }, choose) {
  const focus = Math.min(state.show.focus, runs.length - 1), text = JSON.stringify([state.runs, focus]);
  if ($('legend').dataset.shown === text) return;
  $('legend').dataset.shown = text;
  $('legend').replaceChildren(...runs.map((_, k) => {
    const sign = make('span', { 'aria-hidden': 'true' }, SIGNS[k]);
    sign.style.color = RUNS[k];
    return make('li', {}, make('button', { type: 'button', 'aria-pressed': String(k === focus), title: 'Show its margins', onclick: () => choose(k) }, sign, ` ${runName(state.runs[k])}`));
  }));
}

function showEvents({ runs, state }, go, explain) {
  $('events').replaceChildren(...runs.map((run, k) => {
    const swatch = make('span', { class: 'swatch' });
    swatch.style.background = RUNS[k];
    const notes = [];
    if (run.status !== 'completed') notes.push(make('li', {}, `Ended at step ${number(run.ended_at)}: ${run.status_text}.`));
    if (run.num_spikes > 8) notes.push(make('li', {}, `${run.num_spikes} spikes in all; the eight highest are listed.`));
    const rows = run.events.map((event) => {
      const row = make('li', {}, make('button', { type: 'button', onclick: () => go(event.step) }, `step ${number(event.step)}`), ` ${event.text}`);
      const cause = event.kind === 'spike' && run.causes?.find((each) => each.step === event.step);
      if (cause) row.append(make('p', { class: 'cause' }, cause.text));
      return row;
    });
    if (explain && run.num_spikes && !run.causes) rows.unshift(make('li', {}, make('button', { type: 'button', class: 'why', disabled: run.isAsked, onclick: () => explain() }, run.isAsked ? 'Looking for what caused the spikes …' : 'What caused the spikes?')));
    for (const words of run.found) rows.push(make('li', {}, words));
    for (const [name, words] of Object.entries(run.unknown)) if (!['weights', 'token_losses'].includes(name)) notes.push(make('li', {}, words));
    if (!rows.length && !run.unknown.error) rows.push(make('li', {}, run.first_perfect === null ? 'No spike, nothing forgotten; not all tokens recalled yet.' : 'No spike, nothing forgotten.'));
    return make('div', {}, make('h3', {}, swatch, `Run ${k + 1}: ${runName(state.runs[k])}`), make('ul', { tabindex: 0, 'aria-label': `Events of run ${k + 1}` }, ...notes, ...rows));
  }));
}

// The numbers at a step.
export function readOut({ plane, runs, state }, step) {
  setText($('readout-step'), String(step));
  setText($('cursor-now'), String(step));
  $('cursor').setAttribute('aria-valuetext', `step ${step} of ${state.steps}`);
  const happened = runs.flatMap((run, k) => run.events.filter((event) => Math.round(event.step) === step).map((event) => `run ${k + 1}: ${event.text}`));
  $('here').hidden = !happened.length;
  setText($('here'), happened.join('; '));
  const count = Math.max(...runs.map((run) => run.margins?.shape[1] ?? 0)), shown = Math.min(count, 10), { follow } = state.show, other = follow !== null && follow >= shown && follow < count ? follow : null, extra = state.record.map(({ kind }) => kind).filter((name) => runs.some((run) => run[`record.${name}`]?.shape.length === 1));
  const head = ['run', 'loss', 'error', 'sharpness', ...extra, ...Array.from({ length: shown }, (_, token) => `margin ${plane.names[token]}`), ...(other === null ? [] : [`margin ${plane.names[other]}`]), ...(count > shown ? ['smallest margin'] : [])];
  const rows = runs.map((run, k) => {
    const at = recordAt(run, step), margins = Array.from({ length: count }, (_, token) => run.margins?.[at * count + token]);
    const sharp = run.sharpness?.[recordAt({ step: run.sharpness_step }, step)];
    const values = [run.loss[at], run.error?.[at], sharp, ...extra.map((name) => run[`record.${name}`]?.[at]), ...margins.slice(0, shown), ...(other === null ? [] : [margins[other]]), ...(count > shown ? [Math.min(...margins)] : [])];
    return [runName(state.runs[k]), ...values.map((value) => (value === undefined ? '–' : number(value, 5)))];
  });
  $('readout').replaceChildren(
    make('thead', {}, make('tr', {}, ...head.map((words) => make('th', { scope: 'col' }, words)))),
    make('tbody', {}, ...rows.map(([name, ...values], k) => {
      const swatch = make('span', { class: 'swatch' });
      swatch.style.background = RUNS[k];
      return make('tr', {}, make('th', { scope: 'row' }, swatch, name), ...values.map((value) => make('td', {}, value)));
    })));
}
