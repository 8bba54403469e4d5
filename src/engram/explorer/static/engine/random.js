// Random numbers as the library draws them: JAX's threefry in its partitionable layout, and NumPy's normals.

// --- threefry2x32: 20 rounds on two words under a key of two words ---

const TURNS = [[13, 15, 26, 6], [17, 29, 16, 24]];
const pair = new Uint32Array(2);

function threefry(key, x0, x1) {
  const k0 = key[0], k1 = key[1], keys = [k0, k1, (k0 ^ k1 ^ 0x1bd11bda) >>> 0];
  let a = (x0 + k0) >>> 0, b = (x1 + k1) >>> 0;
  for (let round = 0; round < 5; round++) {
    for (const turn of TURNS[round % 2]) {
      a = (a + b) >>> 0;
      b = (((b << turn) | (b >>> (32 - turn))) ^ a) >>> 0;
    }
    a = (a + keys[(round + 1) % 3]) >>> 0;
    b = (b + keys[(round + 2) % 3] + round + 1) >>> 0;
  }
  pair[0] = a;
  pair[1] = b;
  return pair;
}

export const threefry2x32 = (key, x0, x1) => Array.from(threefry(key, x0, x1));

// A key of a seed, below 2**53.
export const keyOf = (seed) => [Math.floor(seed / 2 ** 32) >>> 0, seed >>> 0];
export const foldIn = (key, number) => Array.from(threefry(key, 0, number));
export const split = (key, count) => Array.from({ length: count }, (_, k) => Array.from(threefry(key, 0, k)));

// Uniform in [0, 1): 52 bits. Each number depends on the key and on its own place only.
export function uniform(key, place) {
  const [high, low] = threefry(key, 0, place);
  return (high * 2 ** 20 + (low >>> 12)) / 2 ** 52;
}

export const bits32 = (key, place) => { const [a, b] = threefry(key, 0, place); return (a ^ b) >>> 0; };

export function normals(key, count) {
  const lowest = -1 + 2 ** -53;
  return Float64Array.from({ length: count }, (_, k) => Math.SQRT2 * erfInv(Math.max(lowest, uniform(key, k) * 2 + lowest)));
}

// Whole numbers below `span`, of 64 bits that are reduced twice, as JAX draws them.
export function integers(key, count, span) {
  const [k1, k2] = split(key, 2), most = BigInt(span), word = 1n << 32n;
  const wide = (k, place) => { const [a, b] = threefry(k, 0, place); return (BigInt(a) << 32n) | BigInt(b); };
  let factor = word % most;
  factor = (factor * factor) % most;
  return Array.from({ length: count }, (_, k) => Number(((wide(k1, k) % most) * factor + (wide(k2, k) % most)) % most));
}

// An order of so many items: sorted by random words, as often as it takes to make equal words unlikely.
export function permutation(key, items) {
  const rounds = Math.ceil((3 * Math.log(Math.max(1, items.length))) / Math.log(2 ** 32 - 1));
  let order = items;
  for (let round = 0; round < rounds; round++) {
    const [next, here] = split(key, 2);
    const words = order.map((_, k) => bits32(here, k));
    order = order.map((item, k) => [words[k], item]).sort((a, b) => a[0] - b[0]).map(([, item]) => item);
    key = next;
  }
  return order;
}

// --- the inverse of the error function ---

// erf where it is small, by a series without cancellation; else its complement, by a continued fraction.
const BETWEEN = 1;
function erfSmall(x) {
  let term = x, sum = x;
  for (let n = 1; term > sum * 1e-18; n++) { term *= (2 * x * x) / (2 * n + 1); sum += term; }
  return ((2 / Math.sqrt(Math.PI)) * Math.exp(-x * x)) * sum;
}
function erfcLarge(x) {
  let tail = x;
  for (let n = 240; n > 0; n--) tail = x + n / 2 / tail;
  return Math.exp(-x * x) / Math.sqrt(Math.PI) / tail;
}
const BETWEEN_VALUE = erfSmall(BETWEEN);

export function erfInv(u) {
  const size = Math.abs(u), rest = 1 - size, log = Math.log(rest * (1 + size));
  if (size === 0) return u;
  if (rest === 0) return u * Infinity;
  const half = 2 / (Math.PI * 0.147) + log / 2; // close to begin with
  let x = Math.sqrt(Math.sqrt(half * half - log / 0.147) - half);
  for (let k = 0; k < 4; k++) {
    const slope = (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x);
    const miss = size < BETWEEN_VALUE ? erfSmall(x) - size : rest - erfcLarge(x);
    x -= miss / slope / (1 + (x * miss) / slope); // Halley's step
  }
  return u < 0 ? -x : x;
}

// --- NumPy's generator: PCG64 from a seed, and its normals by a ziggurat of 256 strips ---

const MASK = (1n << 128n) - 1n, WORD = (1n << 64n) - 1n;
const FACTOR = (2549297995355413924n << 64n) | 4865540595714422341n;

// What NumPy makes of a seed: so many words of 32 bits.
function seedWords(seed, count) {
  const mixer = (first, factor) => {
    let constant = first;
    return (value) => {
      let x = (value ^ constant) >>> 0;
      constant = Math.imul(constant, factor) >>> 0;
      x = Math.imul(x, constant) >>> 0;
      return (x ^ (x >>> 16)) >>> 0;
    };
  };
  const mix = (x, y) => { const both = (Math.imul(0xca01f9dd, x) - Math.imul(0x4973f715, y)) >>> 0; return (both ^ (both >>> 16)) >>> 0; };
  const stir = mixer(0x43b0d7e5, 0x931e8875), spill = mixer(0x8b51f9dd, 0x58f38ded);
  const given = [seed >>> 0, Math.floor(seed / 2 ** 32), 0, 0], pool = given.map(stir);
  for (let from = 0; from < 4; from++) for (let to = 0; to < 4; to++) if (from !== to) pool[to] = mix(pool[to], stir(pool[from]));
  return Array.from({ length: count }, (_, k) => spill(pool[k % 4]));
}

function pcg64(seed) {
  const words = seedWords(seed, 8).map(BigInt), long = (k) => words[2 * k] | (words[2 * k + 1] << 32n);
  const step = (((long(2) << 64n) | long(3)) << 1n | 1n) & MASK;
  let state = (step + ((long(0) << 64n) | long(1))) & MASK;
  const move = () => { state = (state * FACTOR + step) & MASK; };
  move();
  return () => {
    move();
    const mixed = (state >> 64n) ^ (state & WORD), turn = state >> 122n;
    return ((mixed >> turn) | (mixed << ((64n - turn) & 63n))) & WORD;
  };
}

// Strips of equal area under exp(-x^2/2): the widths, their ratios, the heights.
const EDGE = 3.6541528853610088, UNIT = 2 ** 52;
let strips = null;
function makeStrips() {
  const height = (x) => Math.exp((-x * x) / 2);
  const area = EDGE * height(EDGE) + Math.sqrt(Math.PI / 2) * erfcLarge(EDGE / Math.SQRT2);
  const wide = new Float64Array(256), ratio = new Float64Array(256), high = new Float64Array(256);
  wide[0] = area / height(EDGE);
  ratio[0] = EDGE / wide[0];
  wide[255] = EDGE;
  high[0] = 1;
  high[255] = height(EDGE);
  for (let k = 254; k > 0; k--) {
    wide[k] = Math.sqrt(-2 * Math.log(area / wide[k + 1] + high[k + 1]));
    ratio[k + 1] = wide[k] / wide[k + 1];
    high[k] = height(wide[k]);
  }
  return { wide, ratio, high };
}

export function numpyNormals(seed, count) {
  const { wide, ratio, high } = (strips ??= makeStrips()), next = pcg64(seed);
  const real = () => Number(next() >> 11n) / 2 ** 53;
  const one = () => {
    for (;;) {
      const word = next(), k = Number(word & 255n), sign = (word >> 8n) & 1n ? -1 : 1;
      const whole = Number((word >> 9n) & ((1n << 52n) - 1n)), x = (whole / UNIT) * wide[k];
      if (whole < ratio[k] * UNIT) return sign * x;
      if (k > 0) {
        if ((high[k - 1] - high[k]) * real() + high[k] < Math.exp((-x * x) / 2)) return sign * x;
        continue;
      }
      for (;;) {
        const beyond = -Math.log1p(-real()) / EDGE, y = -Math.log1p(-real());
        if (2 * y > beyond * beyond) return ((word >> 17n) & 1n ? -1 : 1) * (EDGE + beyond);
      }
    }
  };
  return Float64Array.from({ length: count }, one);
}
