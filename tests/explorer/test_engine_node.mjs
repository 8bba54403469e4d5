// Answers questions to the page's engine: one line of JSON in, one out. Arrays go as base64 of their bytes.
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const plain = (value) => {
  if (ArrayBuffer.isView(value)) {
    const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
    return { base64: bytes.toString('base64'), shape: value.shape ?? [value.length] };
  }
  if (Array.isArray(value)) return value.map(plain);
  if (value && typeof value === 'object') return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, plain(item)]));
  return value;
};

for await (const line of createInterface({ input: process.stdin })) {
  const { module, name, calls } = JSON.parse(line);
  const call = (await import(pathToFileURL(module)))[name];
  const answers = calls.map((given) => {
    const began = performance.now();
    try { return { value: plain(call(...given)), ms: performance.now() - began }; } catch (error) { return { error: error.constructor.name, text: error.message, trace: error.stack }; }
  });
  process.stdout.write(`${JSON.stringify(answers)}\n`);
}
