// The live page beside a story shows the state of the step that is read.

for (const story of document.querySelectorAll('.story')) {
  const frame = story.querySelector('iframe'), steps = [...story.querySelectorAll('.story-step')];
  const page = new URL(frame.dataset.page, location.href).href, isNarrow = matchMedia('(max-width: 60rem)');
  let shown = steps[0];
  const show = (step) => {
    for (const each of steps) each.classList.toggle('now', each === step);
    if (step === shown) return;
    shown = step;
    frame.contentWindow.location.replace(`${page}#${step.dataset.state}`); // no page of its own to go back to
  };
  // The last step whose beginning has been scrolled to where one reads: on a phone, below the picture.
  const look = () => {
    const line = innerHeight * (isNarrow.matches ? 0.8 : 0.45);
    show(steps.findLast((step) => step.getBoundingClientRect().top < line) ?? steps[0]);
  };
  addEventListener('scroll', look, { passive: true });
  addEventListener('resize', look);
  for (const step of steps) step.addEventListener('focus', () => show(step));
  frame.addEventListener('load', look, { once: true });
  look();
}
