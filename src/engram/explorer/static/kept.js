// What was kept to compare with: settings and their pictures, beside those that change.

import { setText } from './controls.js';
import { runName } from './exports.js';
import { Panel } from './pens.js';
import * as P from './pictures.js';
import { copy, fromHash, toHash } from './state.js';

const $ = (id) => document.getElementById(id);

export class Kept {
  // page: { cursor(), measure(), remember(), compute(state) }
  constructor(page) {
    this.page = page;
    this.data = null;
    this.address = ''; // what it adds to that of the page
    const at = () => Math.min(page.cursor(), this.data.state.steps), focus = () => Math.min(this.data.state.show.focus, this.data.runs.length - 1);
    const trace = (id, draw, axisOf) => new Panel($(id), (pen, w, h) => draw(pen, w, h, this.data), (pen, w, h) => P.drawTraceCursor(pen, w, h, this.data, at(), axisOf(h), []));
    this.all = {
      plane: new Panel($('kept-plane'), (pen, w, h) => P.drawPlane(pen, w, h, this.data), (pen, w, h) => P.drawPlaneCursor(pen, w, h, this.data, at())),
      margins: trace('kept-margins', (pen, w, h, data) => P.drawMargins(pen, w, h, data, focus()), (h) => P.marginAxis([this.data.runs[focus()]], h)),
      loss: trace('kept-loss', P.drawLoss, (h) => P.lossAxis(this.data, h)),
    };
  }

  get panels() { return this.data ? [this.data.plane.has_plane ? this.all.plane : this.all.margins, this.all.loss] : []; }

  // Shows this beside the page, or nothing any more.
  keep(data, { isNew = true } = {}) {
    this.data = data;
    this.address = data ? `&kept=${encodeURIComponent(toHash(data.state).slice(1))}` : '';
    $('kept').hidden = !data;
    document.body.classList.toggle('comparing', Boolean(data));
    setText($('keep'), data ? 'Keep this instead' : 'Compare');
    if (data) {
      $('kept-plane').hidden = !data.plane.has_plane;
      $('kept-margins').hidden = data.plane.has_plane;
      setText($('kept-words'), wordsOf(data));
    }
    this.page.measure();
    if (isNew) this.page.remember();
  }

  async fromAddress(hash, presets) {
    const given = hash.match(/[#&]kept=([^&]*)/)?.[1];
    if (!given) { if (this.data) this.keep(null, { isNew: false }); return; }
    if (this.address === `&kept=${given}`) return;
    this.address = `&kept=${given}`;
    const { state } = fromHash(`#${decodeURIComponent(given)}`, presets), data = await this.page.compute(copy(state));
    if (data) this.keep(data, { isNew: false });
  }
}

const wordsOf = ({ state: { problem, runs, steps, start } }) => {
  const { kind, tokens, ...fields } = problem, said = Object.entries(fields).filter(([, value]) => typeof value !== 'object').map(([name, value]) => `${name.replaceAll('_', ' ')} ${value}`);
  return `${[kind, ...(tokens ? [`${tokens.length} tokens`] : []), ...said].join(', ')}; start (${start.a}, ${start.b}); ${steps} steps; ${runs.map(runName).join('; ')}`;
};
