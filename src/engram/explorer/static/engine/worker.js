// The engine in a worker: { id, parts, state } in, for pushes with { step, run }; { id, header, arrays }, { id, error }, { id, beyond } or { id, isStale } out.
// A newer request ends the older ones.

import { Beyond, Refused, answering } from './index.js';

const LONGEST = 8; // ms of work between two looks at what has come
let newest = null, isAtWork = false;

onmessage = ({ data }) => {
  if (newest) postMessage({ id: newest.id, isStale: true });
  newest = data;
  if (!isAtWork) work();
};

// Lets messages come in: a message to itself is quicker than a timer.
const channel = new MessageChannel();
const pause = () => new Promise((resolve) => { channel.port1.onmessage = resolve; channel.port2.postMessage(null); });

async function work() {
  isAtWork = true;
  while (newest) {
    const job = newest;
    newest = null;
    await answerTo(job);
  }
  isAtWork = false;
}

async function answerTo({ id, ...request }) {
  try {
    const pieces = answering(request);
    let since = performance.now(), piece = pieces.next();
    for (; !piece.done; piece = pieces.next()) {
      if (performance.now() - since < LONGEST) continue;
      await pause();
      if (newest) { postMessage({ id, isStale: true }); return; }
      since = performance.now();
    }
    const { header, arrays } = piece.value;
    // A shape is not copied with an array.
    const sent = Object.fromEntries(Object.entries(arrays).map(([name, values]) => [name, [values, values.shape]]));
    postMessage({ id, header, arrays: sent }, [...new Set(Object.values(arrays).map(({ buffer }) => buffer))]);
  } catch (error) {
    if (error instanceof Beyond) postMessage({ id, beyond: error.message });
    else if (error instanceof Refused) postMessage({ id, error: error.message });
    else { postMessage({ id, beyond: 'the engine of this page has failed.' }); throw error; }
  }
}
