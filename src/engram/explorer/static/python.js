// The Python lines that give the numbers of a state: the same text as the server's.

import { isDrawing } from './engine/optimizers.js';
import { hasPlane, problemOf } from './engine/problems.js';
import { float } from './engine/requests.js';
import { fieldsOf } from './state.js';

const RECORD = ['loss', 'error', 'margins', 'token_losses', 'weights'];
const DENSE_STEPS = 1000, FEW_STEPS = 400;
const FLOW = { num_times: 257, solver: 'explicit', max_steps: 4096 };

class Code { constructor(text) { this.text = text; } } // what stands for itself

// A value as Python writes it; numbers are floats unless they are known to be whole.
function repr(value, isWhole = false) {
  if (value instanceof Code) return value.text;
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'number') return isWhole ? String(value) : float(value);
  if (typeof value === 'string') return quoted(value);
  if (Array.isArray(value)) return `[${value.map((item) => repr(item, isWhole)).join(', ')}]`;
  return `{${Object.entries(value).map(([name, item]) => `'${name}': ${repr(item)}`).join(', ')}}`;
}
// Python's quotes: double ones where there is an apostrophe only.
function quoted(text) {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  return quote + text.replace(/[\\\n\r\t]/g, (c) => ({ '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' })[c]).replaceAll(quote, `\\${quote}`) + quote;
}
const whole = (number) => new Code(String(number));
const tuple = (names) => new Code(`(${names.map((name) => repr(name)).join(', ')}${names.length === 1 ? ',' : ''})`);

// A table of the registry: its fields say which numbers are whole.
function tableOf(kind, table) {
  const fields = fieldsOf(kind, table);
  return Object.fromEntries(Object.entries(table).map(([name, value]) => [name, fields[name]?.form === 'whole' || name === 'targets' ? new Code(repr(value, true)) : value]));
}

function problemText(part, problem) {
  if (!['paper', 'table', 'own'].includes(part.kind)) {
    const { kind, ...table } = tableOf('problem', part);
    const seed = 'seed' in fieldsOf('problem', part) && part.kind !== 'two' ? { seed: whole(0) } : {};
    return `engram.registry.make("problem", ${repr({ ...seed, family: kind, ...table })})`;
  }
  const rows = (values, width) => Array.from({ length: values.length / width }, (_, k) => Array.from(values.slice(k * width, (k + 1) * width)));
  const { inputs, outputs, probs, labels, d, k } = problem;
  const values = { inputs: rows(inputs, d), outputs: rows(outputs, k), probs: Array.from(probs), targets: new Code(repr(Array.from(labels), true)) };
  for (const name of ['names', 'class_names']) if (part[name]) values[name] = tuple(part[name]);
  return `engram.Problem(\n    ${Object.entries(values).map(([name, value]) => `${name}=${repr(value)}`).join(',\n    ')},\n)`;
}

function startText({ a, b, scale, seed }, problem) {
  if (hasPlane(problem)) return `engram.planes.memory_plane(problem).weights(${float(a)}, ${float(b)})`;
  return scale ? `problem.draw_start(${float(scale)}, ${seed})` : 'None';
}

function dynamicsOf({ seed, changes = [], ...run }, steps) {
  const table = tableOf('dynamics', run);
  if (run.kind === 'flow') {
    const { learning_rate: rate, ...rest } = table;
    return { ...rest, end: rate * steps, num_times: whole(FLOW.num_times), spacing: steps <= DENSE_STEPS ? 'linear' : 'log', solver: FLOW.solver, max_steps: whole(FLOW.max_steps) };
  }
  if (changes.length) {
    const edges = [0, ...changes.map((change) => Math.min(change.step, steps)), steps];
    const rates = [run.learning_rate, ...changes.map(({ rate }) => rate)];
    table.learning_rate = new Code(`np.repeat(${repr(rates)}, ${repr(edges.slice(1).map((edge, k) => edge - edges[k]), true)})`);
  }
  return { ...table, steps: whole(steps) };
}

export function pythonLines({ problem: part, runs, steps, start, record }) {
  const problem = problemOf(part), names = [...RECORD, ...record.map(({ kind }) => kind).filter((kind) => !RECORD.includes(kind))];
  const lines = ['import numpy as np', '', 'import engram', '', `problem = ${problemText(part, problem)}`, `start = ${startText(start, problem)}`, 'runs = ['];
  for (const run of runs) {
    const options = { record: tuple(names), ...(isDrawing(run) ? { key: whole(run.seed ?? 0) } : {}), ...(run.kind !== 'flow' && steps > DENSE_STEPS ? { points: whole(FEW_STEPS) } : {}) };
    const more = Object.entries(options).map(([name, value]) => `, ${name}=${repr(value)}`).join('');
    lines.push(`    engram.simulate(\n        problem, ${repr(dynamicsOf(run, steps))},\n        start=start${more},\n    ),`);
  }
  lines.push(']', 'for run in runs:', "    print(run.attrs['dynamics'], run.attrs['status'], 'last loss', float(run.loss[-1]))");
  return `${lines.join('\n')}\n`;
}
