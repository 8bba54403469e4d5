// The spikes of a run explained: whose losses rose, who pushed them, and whether it was to be expected.

import { general } from './events.js';
import { Follower } from './pushes.js';
import { Memory } from './systems.js';
import { ratesOf, roundEven } from './descent.js';
import { isDrawing, optimizerOf, thresholdOf } from './optimizers.js';
import { sharpestOf } from './sharpness.js';

const FEW = 4; // tokens named in a sentence
const LEAST = 0.01; // of a rise that is worth a name
const LITTLE = 0.005; // of a rise, below which nothing is said of the rest
const OFTEN = 2; // times its frequency, beyond which a token came remarkably often
const BUMP = 1.5; // a learning rate that rises by this factor within a few steps is worth a word
const SHORT = 4; // steps before a spike in which such a rise counts as its cause

export function* causesOf(problem, table, steps, W, spikes) {
  const follower = new Follower(problem, table, steps, W), causes = [];
  for (const spike of spikes) {
    const first = spike.start - 1, pushes = yield* follower.between(first, spike.top, 'last');
    const told = { ...spike, first, ...risen(problem, pushes), pushes };
    const sentences = [what(told), whoRose(problem, told), ...whoPushed(problem, told), ...rateSentences(table, steps, told), ...unstable(problem, table, steps, told), ...foreseen(problem, table, W, told)];
    causes.push({ step: spike.top, tokens: told.rise.slice(0, FEW).filter(([, share]) => share > LEAST).map(([x]) => x), text: sentences.join(' ') });
  }
  return causes;
}

// Tokens by their shares of the rise, and sources by what they did to the margins of those.
function risen({ N, probs }, { before, after, push }) {
  const change = Float64Array.from(probs, (p, x) => p * (after.losses[x] - before.losses[x])), rise = change.map((value) => Math.max(value, 0));
  const total = rise.reduce((a, b) => a + b, 0), share = rise.map((value) => (total > 0 ? value / total : value));
  const pull = Float64Array.from({ length: N }, (_, source) => share.reduce((sum, part, x) => sum + part * push[x * N + source], 0));
  const side = (values, isOn) => [...values.entries()].filter(([, value]) => isOn(value)).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
  const weighted = ({ losses }) => losses.reduce((sum, loss, x) => sum + probs[x] * loss, 0);
  return { share, rise: side(share, (v) => v > 0), against: side(pull, (v) => v < 0), helping: side(pull, (v) => v > 0), lossBefore: weighted(before), lossPeak: weighted(after) };
}

const list = (parts) => (parts.length === 1 ? parts[0] : `${parts.slice(0, -1).join(', ')} and ${parts.at(-1)}`);
const percent = (share) => `${roundEven(share * 100)}%`;
const number = (value) => general(value, 4);

function what({ first, top, end, height, lossBefore, lossPeak }) {
  const back = Number.isNaN(end) ? 'had not come down' : `was back at ${general(end, 6)}`;
  return `From ${general(first, 6)} to ${general(top, 6)} the loss rose from ${number(lossBefore)} to ${number(lossPeak)}, ${general(height, 3)} times its minimum, and ${back}.`;
}

function whoRose({ names, probs, M }, { rise, pushes: { after } }) {
  const named = rise.slice(0, FEW).filter(([, share]) => share > LEAST);
  const taken = (x) => (after.against[x * M + after.rivals[x]] < 0 ? `, then recalled as class ${after.rivals[x]}` : '');
  const top = named.map(([x, share]) => `token ${names[x]} (${percent(share)} of the rise, p = ${general(probs[x], 3)}${taken(x)})`);
  if (!top.length) return "No token's loss rose.";
  const rest = rise.length - top.length, share = 1 - named.reduce((sum, [, part]) => sum + part, 0);
  const more = rest > 0 && share >= LITTLE ? `; ${rest === 1 ? '1 other rose' : `${rest} others rose`}, too (${percent(share)})` : '';
  return `What rose ${top.length === 1 ? 'is the loss' : 'are the losses'} of ${list(top)}${more}.`;
}

function whoPushed(problem, told) {
  const its = told.rise.filter(([, share]) => share > LEAST).length === 1 ? 'its margin' : 'their margins';
  const of = (side, words) => {
    const least = 0.05 * side.reduce((sum, [, value]) => sum + Math.abs(value), 0);
    const parts = side.slice(0, FEW).filter(([, value]) => Math.abs(value) > least).map(([x, value]) => `token ${problem.names[x]} by ${general(Math.abs(value), 3)}${why(problem, told, x)}`);
    return parts.length ? [`${words} ${list(parts)}.`] : [];
  };
  return [...of(told.against, `What lowered ${its}:`), ...of(told.helping, `What raised ${its}:`)];
}

// What the push of a source on the token that it moved most is a product of.
function why({ N, d, inputs, names, probs }, { share, rise, pushes: { push, reach, strength, often } }, source) {
  let moved = 0;
  for (let x = 1; x < N; x++) if (share[x] * Math.abs(push[x * N + source]) > share[moved] * Math.abs(push[moved * N + source])) moved = x;
  if (moved === source) return ' (itself)';
  let overlap = 0;
  for (let j = 0; j < d; j++) overlap += inputs[moved * d + j] * inputs[source * d + j];
  const outputs = reach[moved * N + source] / (strength[source] > 0 ? strength[source] : 1), p = probs[source];
  const many = often[source] > OFTEN * p ? `, but ${percent(often[source])} of the samples in these steps` : '';
  const whose = moved === rise[0]?.[0] ? '' : `token ${names[moved]}'s: `;
  return ` (${whose}inputs overlap by ${general(overlap, 3)}, outputs by ${general(outputs, 2)}; p = ${general(p, 3)}${many})`;
}

// The learning rate before, and the largest in the spike or shortly before it, where that is larger.
function rateSentences(table, steps, { first, top }) {
  if (!Array.isArray(table.learning_rate) && !table.changes?.length) return [];
  const rates = ratesOf(table, steps), begin = Math.max(first - SHORT, 0), largest = Math.max(...rates.slice(begin, Math.max(top, begin + 1)));
  return largest > BUMP * rates[begin] ? [`The learning rate had gone up from ${number(rates[begin])} to ${number(largest)}.`] : [];
}

function unstable(problem, table, steps, { first, pushes: { W } }) {
  const { value, direction } = sharpestOf(problem, W), rates = ratesOf(table, steps), limit = thresholdOf(table, rates[Math.min(first, rates.length - 1)]);
  const words = `The sharpness at ${general(first, 6)} was ${number(value)}`;
  if (Number.isNaN(limit)) return [`${words}.`];
  const sentence = `${words}, ${value > limit ? 'above' : 'below'} the method's limit of ${number(limit)}`;
  if (direction === null || !(value > limit)) return [`${sentence}.`];
  const order = direction.map((_, x) => x).sort((a, b) => Math.abs(direction[b]) - Math.abs(direction[a]));
  const those = (isOn) => order.filter((x) => isOn(direction[x])).slice(0, FEW).map((x) => `token ${problem.names[x]}`);
  const up = those((v) => v > 0.1), down = those((v) => v < -0.1);
  return [`${sentence}; the sharpest direction moves ${list(up)}${down.length ? ` against ${list(down)}` : ''}.`];
}

// What the theory of the first step from zero says, where it is about this spike.
function foreseen(problem, table, W, { first }) {
  if (first !== 0 || optimizerOf(table) !== 'plain' || isDrawing(table) || W.some((value) => value !== 0)) return [];
  const rate = ratesOf(table, 1)[0], limit = firstStepLimit(problem);
  return rate > limit ? [`The first step from zero raises the loss if the learning rate is above ${number(limit)}; it was ${number(rate)}.`] : [];
}

// The learning rate above which one step from zero raises the loss: the loss is convex along it.
function firstStepLimit(problem) {
  const { N, M, probs, labels } = problem, system = new Memory(problem), W = new Float64Array(system.size), step = new Float64Array(system.size), scores = new Float64Array(N * M);
  system.see(W);
  system.pull(probs, step);
  system.scoresAt(step.map((value) => -value), scores);
  const gaps = Array.from(labels, (own, x) => Math.max(...scores.subarray(x * M, (x + 1) * M)) - scores[x * M + own]);
  const slope = gaps.reduce((sum, gap, x) => sum + probs[x] * gap, 0), size = Math.max(...scores.map((value, i) => Math.abs(value - scores[Math.floor(i / M) * M + labels[Math.floor(i / M)]])));
  if (!(slope > 1e-14 * (size > 0 ? size : 1))) return Infinity;
  const isRising = (eta) => { system.see(step.map((value) => -eta * value)); system.look(); return system.loss > Math.log(M); };
  let low = 0, high = Math.log(M) / slope;
  for (let k = 0; k < 100; k++) { const middle = (low + high) / 2; if (isRising(middle)) high = middle; else low = middle; }
  return (low + high) / 2;
}
