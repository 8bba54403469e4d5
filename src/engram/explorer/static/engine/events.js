// Events of a run by the library's definitions, found at every step; and what is said of them.

const FACTOR = 1.1; // a loss this many times above its running minimum is a spike
const LISTED = 8; // spikes, at most; the page says how many there are
const NEVER = -1;

export class Events {
  constructor(N) {
    Object.assign(this, {
      N, firstPerfect: NEVER, lastImperfect: NEVER, lowest: Infinity, previous: Infinity, lastRise: NEVER,
      inSpike: false, numSpikes: 0, start: NEVER, top: 1, topStep: NEVER, ended: [],
    });
    this.wasRight = new Uint8Array(N);
    this.numForgotten = new Int32Array(N);
    for (const name of ['firstLearnt', 'firstForgotten', 'lastForgotten', 'lastRelearnt']) this[name] = new Float64Array(N).fill(NEVER);
  }

  update(index, loss, error, margins) {
    if (error === 0) { if (this.firstPerfect === NEVER) this.firstPerfect = index; } else this.lastImperfect = index;
    const isAbove = loss > FACTOR * this.lowest, height = loss / this.lowest, starts = isAbove && !this.inSpike;
    if (loss > this.previous) this.lastRise = index;
    if (this.inSpike && !isAbove) this.ended.push({ start: this.start, top: this.topStep, height: this.top, end: index });
    if (starts || (isAbove && height > this.top)) { this.top = height; this.topStep = index; }
    if (starts) { this.numSpikes += 1; this.start = index; }
    this.inSpike = isAbove;
    this.lowest = loss !== loss ? NaN : Math.min(this.lowest, loss);
    this.previous = loss;
    const { wasRight } = this;
    for (let x = 0; x < wasRight.length; x++) {
      const isRight = margins[x] > 0 ? 1 : 0;
      if (isRight !== wasRight[x]) this.change(index, x, isRight);
    }
  }

  change(index, x, isRight) {
    if (!isRight) {
      if (this.firstForgotten[x] === NEVER) this.firstForgotten[x] = index;
      this.lastForgotten[x] = index;
      this.numForgotten[x] += 1;
    } else {
      if (this.firstLearnt[x] === NEVER) this.firstLearnt[x] = index;
      if (this.numForgotten[x] > 0) this.lastRelearnt[x] = index;
    }
    this.wasRight[x] = isRight;
  }

  // Small numbers and words of a run whose last step, or record, is `last`; `step` says which step that was.
  describe({ last, step, clock, margins, problem }) {
    const when = (index) => (index === NEVER ? null : step(index)), stays = this.lastImperfect + 1;
    const words = {
      ended_at: clock.length ? clock[clock.length - 1] : null,
      num_spikes: this.numSpikes,
      first_perfect: when(this.firstPerfect),
      perfect_from: stays <= last ? step(stays) : null,
      last_rise: when(this.lastRise),
    };
    const listed = [...this.spikeEvents(when), ...this.tokenEvents(when, problem.names)];
    for (const at of new Set([words.first_perfect, words.perfect_from])) {
      if (at === null) continue;
      const later = words.first_perfect === words.perfect_from ? '' : at === words.perfect_from ? ', from here on' : ', not yet for good';
      listed.push({ kind: 'perfect', step: at, tokens: [], text: `all tokens recalled${later}${tie(at, clock, margins, problem)}` });
    }
    return { ...words, events: listed.sort((a, b) => a.step - b.step) };
  }

  // The highest spikes in the order of steps; one that has not ended has no end.
  get spikes() {
    const all = this.inSpike ? [...this.ended, { start: this.start, top: this.topStep, height: this.top, end: NaN }] : this.ended;
    const highest = all.map((_, k) => k).sort((a, b) => (all[a].height === all[b].height ? a - b : all[b].height - all[a].height)).slice(0, LISTED);
    return highest.sort((a, b) => a - b).map((k) => all[k]);
  }

  spikeEvents(when) {
    return this.spikes.map(({ top, height }) => {
      const text = Number.isFinite(height) ? `loss spike, ${general(height, 3)} times the lowest loss before it` : 'loss spike, from a loss that had fallen to zero';
      return { kind: 'spike', step: when(top), tokens: [], text };
    });
  }

  tokenEvents(when, names) {
    const grouped = new Map();
    const put = (kind, words, at, token) => {
      if (at === null) return;
      const key = JSON.stringify([kind, words, at]);
      if (!grouped.has(key)) grouped.set(key, { kind, words, step: at, tokens: [] });
      grouped.get(key).tokens.push(token);
    };
    this.numForgotten.forEach((count, token) => {
      if (!count) return;
      const [first, last, back] = [this.firstForgotten, this.lastForgotten, this.lastRelearnt].map((steps) => when(steps[token]));
      put('forgotten', `forgotten${count > 1 ? ` (${count} times in all)` : ''}`, first, token);
      if (last !== first) put('forgotten', 'forgotten again, for the last time', last, token);
      if (back !== null && last !== null && back > last) put('relearnt', 're-learnt', back, token);
    });
    return Array.from(grouped.values(), ({ kind, words, step, tokens }) => ({ kind, step, tokens, text: `${listedNames(tokens, names)} ${words}` }));
  }
}

// A tie goes to the lowest class, and so counts as recalled for tokens of that class.
function tie(at, clock, margins, { N, probs }) {
  const row = clock.indexOf(at);
  if (row < 0) return '';
  for (let x = 0; x < N; x++) if (probs[x] > 0 && margins[row * N + x] <= 0) return ' (some by a tie)';
  return '';
}

function listedNames(tokens, names) {
  const more = tokens.length > 6 ? ` and ${tokens.length - 6} more` : '';
  return `token${tokens.length > 1 ? 's' : ''} ${tokens.slice(0, 6).map((token) => names[token]).join(', ')}${more}`;
}

// A number with so many digits, as Python's format `g` writes it: half of a last digit goes to the even one.
export function general(value, digits) {
  if (!Number.isFinite(value)) return value !== value ? 'nan' : value > 0 ? 'inf' : '-inf';
  if (value === 0) return Object.is(value, -0) ? '-0' : '0';
  const [mantissa, power] = rounded(value, digits).split('e'), k = Number(power);
  const short = (text) => (text.includes('.') ? text.replace(/0+$/, '').replace(/\.$/, '') : text);
  if (k >= -4 && k < digits) return short(Number(`${mantissa}e${k}`).toFixed(digits - 1 - k));
  return `${short(mantissa)}e${k < 0 ? '-' : '+'}${String(Math.abs(k)).padStart(2, '0')}`;
}

function rounded(value, digits) {
  const text = value.toExponential(digits - 1), [whole, power] = value.toExponential(100).split('e'), exact = whole.replace(/[-.]/g, '');
  const isHalf = exact[digits] === '5' && /^0*$/.test(exact.slice(digits + 1)), isEven = Number(exact[digits - 1]) % 2 === 0;
  if (!isHalf || !isEven) return text;
  const kept = exact.slice(0, digits); // a half beside an even digit goes down, and JavaScript takes it up
  return `${value < 0 ? '-' : ''}${kept[0]}${digits > 1 ? `.${kept.slice(1)}` : ''}e${power}`;
}
