// The Python lines which, run, give the numbers on the page: the same as the server writes.

import { isDrawing } from './optimizers.js';
import { hasPlane, problemOf } from './problems.js';
import { PROBLEMS, float, read, repr, runFields } from './requests.js';

const RECORD = ['loss', 'error', 'margins', 'token_losses', 'weights'];
const DENSE_STEPS = 1000, FEW_STEPS = 400, FLOW_POINTS = 257, FLOW_STEPS = 4096;

export function pythonLines(given) {
  const state = read(given, []), problem = problemOf(state.problem);
  return `${[
    'import numpy as np', '', 'import engram', '',
    `problem = ${problemText(state.problem, problem)}`,
    `start = ${startText(state.start, problem)}`,
    'runs = [',
    ...state.runs.map((run) => runText(run, state)),
    ']',
    'for run in runs:',
    "    print(run.attrs['dynamics'], run.attrs['status'], 'last loss', float(run.loss[-1]))",
  ].join('\n')}\n`;
}

// A value of a field: whole numbers as they are, others with a point.
function valueText(value, field) {
  if (Array.isArray(value)) return `[${value.map((item) => valueText(item, field)).join(', ')}]`;
  return typeof value === 'number' && !field?.isWhole ? float(value) : repr(value);
}

const dictText = (pairs) => `{${pairs.map(([name, text]) => `${repr(name)}: ${text}`).join(', ')}}`;

function problemText(part, problem) {
  if (part.kind === 'table' || part.kind === 'paper') return arraysText(problem);
  const fields = PROBLEMS[part.kind], given = Object.entries(part).filter(([name, value]) => name in fields && value !== null);
  const texts = new Map([...(part.kind === 'two' ? [] : [['seed', '0']]), ['family', repr(part.kind)]]);
  for (const [name, value] of given) texts.set(name, valueText(value, name === 'targets' ? { isWhole: true } : fields[name]));
  return `engram.registry.make("problem", ${dictText([...texts])})`;
}

// Any other problem by its numbers, to the last bit.
function arraysText({ N, M, d, k, inputs, outputs, probs, labels }) {
  const rows = (values, count, width) => `[${Array.from({ length: count }, (_, x) => `[${Array.from(values.subarray(x * width, (x + 1) * width), float).join(', ')}]`).join(', ')}]`;
  const texts = { inputs: rows(inputs, N, d), outputs: rows(outputs, M, k), probs: `[${Array.from(probs, float).join(', ')}]`, targets: `[${[...labels].join(', ')}]` };
  return `engram.Problem(\n    ${Object.entries(texts).map(([name, text]) => `${name}=${text}`).join(',\n    ')},\n)`;
}

function startText({ a, b, scale, seed }, problem) {
  if (hasPlane(problem)) return `engram.planes.memory_plane(problem).weights(${float(a)}, ${float(b)})`;
  return scale === 0 ? 'None' : `problem.draw_start(${float(scale)}, ${seed})`;
}

function runText(run, { steps, record }) {
  const { kind, changes = [], seed = 0, learning_rate: rate } = run, isFlow = kind === 'flow', fields = { ...runFields(run), kind: {}, optimizer: {}, sampling: {} };
  const own = Object.entries(run).filter(([name, value]) => name in fields && name !== 'kind' && value !== null && !(isFlow && name === 'learning_rate'));
  const texts = new Map([['kind', repr(kind)], ...own.map(([name, value]) => [name, valueText(value, fields[name])])]);
  if (isFlow) for (const [name, text] of flowTexts(rate, steps)) texts.set(name, text); else texts.set('steps', String(steps));
  if (changes.length) {
    const edges = [0, ...changes.map(({ step }) => Math.min(step, steps)), steps];
    texts.set('learning_rate', `np.repeat([${[rate, ...changes.map((change) => change.rate)].map(float).join(', ')}], [${edges.slice(1).map((edge, k) => edge - edges[k]).join(', ')}])`);
  }
  const names = [...new Set([...RECORD, ...record.map((item) => item.kind)])], options = [`record=(${names.map(repr).join(', ')})`];
  if (!isFlow && isDrawing(run)) options.push(`key=${seed}`);
  if (!isFlow && steps > DENSE_STEPS) options.push(`points=${FEW_STEPS}`);
  return `    engram.simulate(\n        problem, ${dictText([...texts])},\n        start=start, ${options.join(', ')},\n    ),`;
}

const flowTexts = (rate, steps) => Object.entries({
  end: float(rate * steps), num_times: String(FLOW_POINTS), spacing: repr(steps <= DENSE_STEPS ? 'linear' : 'log'), solver: "'explicit'", max_steps: String(FLOW_STEPS),
});
