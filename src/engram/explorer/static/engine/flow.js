// Gradient flow in log time, by the method of Prince and Dormand of order 8 with steps as the library takes them.

import { Events } from './events.js';
import { Records } from './records.js';
import { systemOf } from './systems.js';

const POINTS = 257; // recorded
const MOST_STEPS = 4096; // of the solver, so that no request takes long
const DENSE_STEPS = 1000;
const BETWEEN = 16; // steps between two looks at whether anybody still waits
const TOO_STIFF = 'the flow is too stiff for the explicit solver; choose a smaller rate or fewer steps';

// Stages: what each adds of those before it, and when it is.
const STAGES = [
  [[1 / 18], 1 / 18],
  [[1 / 48, 1 / 16], 1 / 12],
  [[1 / 32, 0, 3 / 32], 1 / 8],
  [[5 / 16, 0, -75 / 64, 75 / 64], 5 / 16],
  [[3 / 80, 0, 0, 3 / 16, 3 / 20], 3 / 8],
  [[29443841 / 614563906, 0, 0, 77736538 / 692538347, -28693883 / 1125000000, 23124283 / 1800000000], 59 / 400],
  [[16016141 / 946692911, 0, 0, 61564180 / 158732637, 22789713 / 633445777, 545815736 / 2771057229, -180193667 / 1043307555], 93 / 200],
  [[39632708 / 573591083, 0, 0, -433636366 / 683701615, -421739975 / 2616292301, 100302831 / 723423059, 790204164 / 839813087, 800635310 / 3783071287], 5490023248 / 9719169821],
  [[246121993 / 1340847787, 0, 0, -37695042795 / 15268766246, -309121744 / 1061227803, -12992083 / 490766935, 6005943493 / 2108947869, 393006217 / 1396673457, 123872331 / 1001029789], 13 / 20],
  [[-1028468189 / 846180014, 0, 0, 8478235783 / 508512852, 1311729495 / 1432422823, -10304129995 / 1701304382, -48777925059 / 3047939560, 15336726248 / 1032824649, -45442868181 / 3398467696, 3065993473 / 597172653], 1201146811 / 1299019798],
  [[185892177 / 718116043, 0, 0, -3185094517 / 667107341, -477755414 / 1098053517, -703635378 / 230739211, 5731566787 / 1027545527, 5232866602 / 850066563, -4093664535 / 808688257, 3962137247 / 1805957418, 65686358 / 487910083], 1],
  [[403863854 / 491063109, 0, 0, -5068492393 / 434740067, -411421997 / 543043805, 652783627 / 914296604, 11173962825 / 925320556, -13158990841 / 6184727034, 3936647629 / 1978049680, -160528059 / 685178525, 248638103 / 1413531060, 0], 1],
];
const LAST = [14005451 / 335480064, 0, 0, 0, 0, -59238493 / 1068277825, 181606767 / 758867731, 561292985 / 797845732, -1041891430 / 1371343529, 760417239 / 1151165299, 118820643 / 751138087, -528747749 / 2220607170, 1 / 4];
const ORDER_7 = [13451932 / 455176623, 0, 0, 0, 0, -808719846 / 976000145, 1757004468 / 5645159321, 656045339 / 265891186, -3867574721 / 1518517206, 465885868 / 322736535, 53011238 / 667516719, 2 / 45, 0];
const ERROR = LAST.map((weight, k) => weight - ORDER_7[k]);
// What the library's solver records at the end of a step: LAST to twelve digits, from its dense output.
const RECORDED = [0.041747491141356896, 0, 0, 0, 0, -0.05545232861221727, 0.23931280720172232, 0.7035106694035569, -0.7597596138137099, 0.6605630309221873, 0.1581874825097127, -0.23810953875237217, 0.24999999999992895, -1.5631940186722204e-13];

function timesOf(end, steps) {
  const isLog = steps > DENSE_STEPS, top = isLog ? Math.log1p(end) : end;
  const at = Float64Array.from({ length: POINTS }, (_, k) => (k === POINTS - 1 ? top : k * (top / (POINTS - 1))));
  return isLog ? at.map(Math.expm1) : at;
}

const bits = new DataView(new ArrayBuffer(8));
function lower(value, places) { // the number so many places before a positive one
  bits.setFloat64(0, value);
  bits.setBigInt64(0, bits.getBigInt64(0) - BigInt(places));
  return bits.getFloat64(0);
}

export function* flow({ problem, table, steps, W, extra }) {
  const { learning_rate: rate = 1, rtol = 1e-11, atol = 1e-13 } = table, times = timesOf(rate * steps, steps), clock = times.map(Math.log1p);
  const system = systemOf(problem, false, W), records = new Records(system, POINTS, extra), solver = new Solver(system, W, rtol, atol);
  const end = Math.max(clock[POINTS - 1], Number.MIN_VALUE * 2 ** 52), nearly = lower(end, 100);
  const isHidden = problem.probs.some((p) => p > 0 && p <= 1e3 * rtol && p * times[POINTS - 1] > 1e-10);
  const recorded = new Float64Array(system.size);
  const record = (row, state) => { system.see(state); system.look(); records.put(row, state); };
  let now = 0, place = clock.findIndex((s) => s > 0), row = 0, count = 0, isSteady = false;
  if (place < 0) place = POINTS;
  const clip = (s) => Math.min(place < POINTS ? clock[place] : Infinity, s);
  let next = clip(solver.firstStep());
  while (now < end && count < MOST_STEPS && !isSteady) {
    const before = now, isKept = solver.step(now, next);
    count += 1;
    if (isKept) {
      for (; row < POINTS && clock[row] <= next; row++) {
        if (clock[row] === next) solver.recorded(recorded); else recorded.set(solver.y); // only before the first step
        record(row, recorded);
      }
      solver.accept();
      now = Math.min(next, end);
      while (place < POINTS && clock[place] <= now) place += 1;
    }
    next = clip(now + (next - before) * solver.factor);
    if (next > nearly) next = isKept ? end : now + 0.5 * (end - now);
    isSteady = !isHidden && solver.isSteady(now);
    if (count % BETWEEN === 0) yield;
  }
  const isFinite = solver.y.every(Number.isFinite), isDone = isSteady || now >= end;
  const status = !isDone ? 'step limit' : isFinite ? 'completed' : 'not finite';
  if (isSteady) for (; row < POINTS; row++) record(row, solver.y);
  const reached = isDone ? POINTS : row, kept = records.upTo(reached), events = new Events(problem.N), { N } = problem;
  for (let k = 0; k < reached; k++) events.update(k, kept.loss[k], kept.error[k], kept.margins.subarray(k * N, (k + 1) * N));
  return {
    records: kept, clock: times.slice(0, reached).map((time) => time / rate), time: times.slice(0, reached), status, text: status === 'step limit' ? TOO_STIFF : undefined, events,
    last: reached - 1, step: (index) => times[index] / rate, thresholds: [], needsKey: false,
  };
}

// Steps of the flow of a system, with the error of each.
class Solver {
  constructor(system, W, rtol, atol) {
    const { size } = system;
    Object.assign(this, { system, rtol, atol, size, y: system.start(W) });
    this.stages = Array.from({ length: 14 }, () => new Float64Array(size));
    this.ahead = new Float64Array(size);
    this.g = new Float64Array(size);
    this.first = new Float64Array(size); // the velocity at y
    this.last = new Float64Array(size); // the velocity at the end of a step
    this.velocity(0, this.y, this.first);
    this.firstSpeed = system.speed(this.first);
  }

  velocity(s, y, out) {
    const { system } = this, rate = Math.exp(s);
    system.see(y);
    system.pull(system.law, out);
    for (let i = 0; i < out.length; i++) out[i] *= -rate;
  }

  // The root mean square of numbers in units of the tolerance at y.
  scaled(at) {
    const { y, atol, rtol, size } = this;
    let sum = 0;
    for (let i = 0; i < size; i++) { const value = at(i) / (atol + Math.abs(y[i]) * rtol); sum += value * value; }
    return Math.sqrt(sum) / Math.sqrt(size);
  }

  // How long the first step may be (Hairer, Norsett and Wanner, II.4).
  firstStep() {
    const { y, first, last, ahead, size } = this, d0 = this.scaled((i) => y[i]), d1 = this.scaled((i) => first[i]);
    const small = d0 < 1e-5 || d1 < 1e-5 ? 1e-6 : 0.01 * (d0 / d1);
    for (let i = 0; i < size; i++) ahead[i] = y[i] + small * first[i];
    this.velocity(small, ahead, last);
    const most = Math.max(d1, this.scaled((i) => last[i] - first[i]) / small);
    return Math.min(100 * small, most <= 1e-15 ? Math.max(1e-6, small * 1e-3) : (0.01 / most) ** (1 / 8));
  }

  // Tries a step; says whether its error is small enough. By how much the next one may be longer is `factor`.
  step(from, to) {
    const { y, ahead, stages, first, last, size, atol, rtol } = this, h = to - from;
    for (let i = 0; i < size; i++) stages[0][i] = h * first[i];
    for (let k = 1; k < 14; k++) {
      const [weights, when] = k < 13 ? STAGES[k - 1] : [LAST, 1];
      ahead.set(y);
      for (let j = 0; j < weights.length; j++) {
        const weight = weights[j], stage = stages[j];
        if (weight !== 0) for (let i = 0; i < size; i++) ahead[i] += weight * stage[i];
      }
      this.velocity(from + when * h, ahead, last);
      for (let i = 0; i < size; i++) stages[k][i] = h * last[i];
    }
    const isNaN = ahead.some((value) => value !== value);
    let sum = 0;
    for (let i = 0; i < size; i++) {
      let error = 0;
      for (let k = 0; k < 13; k++) if (ERROR[k] !== 0) error += ERROR[k] * stages[k][i];
      if (error !== error) error = Infinity;
      const scaled = error / (atol + Math.max(Math.abs(y[i]), isNaN ? 0 : Math.abs(ahead[i])) * rtol);
      sum += scaled * scaled;
    }
    const error = Math.sqrt(sum) / Math.sqrt(size), isKept = error < 1, factor = 0.9 * (1 / error) ** (1 / 8);
    this.factor = Math.min(Math.max(factor, isKept ? 1 : 0.2), isKept ? 10 : 0.9);
    return isKept;
  }

  recorded(out) {
    const { y, stages } = this;
    for (let i = 0; i < out.length; i++) {
      let sum = 0;
      for (let k = 0; k < 14; k++) if (RECORDED[k] !== 0) sum += RECORDED[k] * stages[k][i];
      out[i] = y[i] + sum;
    }
  }

  accept() {
    [this.y, this.ahead] = [this.ahead, this.y];
    [this.first, this.last] = [this.last, this.first];
  }

  // Whether nothing moves any more: the gradient is as small as the tolerance, and so is time times it, and
  // what is left of it has had its time.
  isSteady(s) {
    const { system, y, g, ahead, rtol, firstSpeed } = this;
    system.see(y);
    system.pull(system.law, g);
    const speed = system.speed(g), past = Math.exp(s);
    if (!(speed <= 10 * rtol * firstSpeed && past * speed <= 100 * rtol)) return false;
    system.bend(g, ahead);
    return past * system.speed(ahead) >= 10 * speed;
  }
}
