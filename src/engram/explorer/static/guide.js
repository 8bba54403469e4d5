// Three short steps for a first visit. Whoever has ended them, or began with a link, does not see them.

const $ = (id) => document.getElementById(id);
const KEY = 'engram-guide';
const STEPS = [
  ['plane-box', 'This is the memory while it trains: each step moves the dots. The bluer the ground, the more tokens are recalled.'],
  ['run-list', 'Change anything: drag the black dot to start elsewhere, or move a learning rate η. All of it is computed again at once.'],
  ['traces', 'The same steps as curves. Marks above the loss say when it spikes and when tokens are forgotten. Press Play, or point at a curve.'],
];

const isDone = () => { try { return localStorage.getItem(KEY) === 'done'; } catch { return true; } }; // some frames keep nothing

// Returns what shows the first step: it waits for the first drawing, which says whether there is a plane.
export function prepareGuide() {
  if (location.hash || globalThis.parent !== globalThis || isDone()) return () => {};
  let step = 0;
  const show = () => {
    while (step < STEPS.length && $(STEPS[step][0]).hidden) step += 1; // a problem may have no plane
    document.querySelector('.guided')?.classList.remove('guided');
    $('guide').hidden = step >= STEPS.length;
    if (step >= STEPS.length) { try { localStorage.setItem(KEY, 'done'); } catch { /* then it comes again */ } return; }
    const [where, words] = STEPS[step], isLast = step === STEPS.length - 1;
    if (getComputedStyle($('controls')).display !== 'none' || where !== 'run-list') $(where).classList.add('guided');
    $('guide-text').textContent = words;
    $('guide-next').textContent = isLast ? 'Done' : `Next (${step + 1} of ${STEPS.length})`;
    $('guide-end').hidden = isLast;
  };
  const end = () => { step = STEPS.length; show(); };
  $('guide-next').addEventListener('click', () => { step += 1; show(); });
  $('guide-end').addEventListener('click', end);
  addEventListener('keydown', ({ key }) => { if (key === 'Escape') end(); });
  return show;
}
