// Small dense algebra on typed arrays: matrices lie row by row.

export const dot = (a, b) => { let sum = 0; for (let i = 0; i < a.length; i++) sum += a[i] * b[i]; return sum; };
export const norm = (a) => { // no square overflows
  let top = 0, sum = 0;
  for (let i = 0; i < a.length; i++) top = Math.max(top, Math.abs(a[i]));
  if (!(top > 0) || top === Infinity) return top;
  for (let i = 0; i < a.length; i++) sum += (a[i] / top) * (a[i] / top);
  return top * Math.sqrt(sum);
};

// out = A B^T, (m, n) from (m, l) and (n, l).
export function timesTransposed(A, B, m, n, l, out = new Float64Array(m * n)) {
  for (let i = 0; i < m; i++) for (let j = 0; j < n; j++) {
    let sum = 0;
    for (let k = 0; k < l; k++) sum += A[i * l + k] * B[j * l + k];
    out[i * n + j] = sum;
  }
  return out;
}

// out = A B, (m, n) from (m, l) and (l, n).
export function times(A, B, m, n, l, out = new Float64Array(m * n)) {
  out.fill(0, 0, m * n);
  for (let i = 0; i < m; i++) for (let k = 0; k < l; k++) {
    const a = A[i * l + k];
    if (a !== 0) for (let j = 0; j < n; j++) out[i * n + j] += a * B[k * n + j];
  }
  return out;
}

// out = A^T B, (m, n) from (l, m) and (l, n): a sum over rows.
export function transposedTimes(A, B, m, n, l, out = new Float64Array(m * n)) {
  out.fill(0, 0, m * n);
  for (let k = 0; k < l; k++) for (let i = 0; i < m; i++) {
    const a = A[k * m + i];
    if (a !== 0) for (let j = 0; j < n; j++) out[i * n + j] += a * B[k * n + j];
  }
  return out;
}

export function transposed(A, m, n) {
  const out = new Float64Array(m * n);
  for (let i = 0; i < m; i++) for (let j = 0; j < n; j++) out[j * m + i] = A[i * n + j];
  return out;
}

// Singular values in falling order with their vectors, by turning pairs of columns (Jacobi, one-sided):
// A = U diag(s) V^T, U of shape (m, r), V of (n, r), r the smaller of m and n.
export function svd(A, m, n) {
  if (m < n) { const { U, s, V } = svd(transposed(A, m, n), n, m); return { U: V, s, V: U }; }
  const columns = Array.from({ length: n }, (_, j) => Float64Array.from({ length: m }, (_, i) => A[i * n + j]));
  const turns = Array.from({ length: n }, (_, j) => Float64Array.from({ length: n }, (_, i) => (i === j ? 1 : 0)));
  for (let sweep = 0, isTurned = true; isTurned && sweep < 60; sweep++) {
    isTurned = false;
    for (let p = 0; p < n; p++) for (let q = p + 1; q < n; q++) {
      const a = dot(columns[p], columns[p]), b = dot(columns[q], columns[q]), c = dot(columns[p], columns[q]);
      if (Math.abs(c) <= 4e-16 * Math.sqrt(a * b) || c === 0) continue;
      isTurned = true;
      const zeta = (b - a) / (2 * c), t = (zeta < 0 ? -1 : 1) / (Math.abs(zeta) + Math.hypot(1, zeta)), cos = 1 / Math.hypot(1, t), sin = cos * t;
      for (const [x, y] of [[columns[p], columns[q]], [turns[p], turns[q]]]) {
        for (let i = 0; i < x.length; i++) { const xi = x[i]; x[i] = cos * xi - sin * y[i]; y[i] = sin * xi + cos * y[i]; }
      }
    }
  }
  const sizes = columns.map(norm), order = sizes.map((_, j) => j).sort((a, b) => sizes[b] - sizes[a]);
  const U = new Float64Array(m * n), V = new Float64Array(n * n);
  order.forEach((from, j) => {
    for (let i = 0; i < m; i++) U[i * n + j] = sizes[from] > 0 ? columns[from][i] / sizes[from] : 0;
    for (let i = 0; i < n; i++) V[i * n + j] = turns[from][i];
  });
  return { U, s: Float64Array.from(order, (j) => sizes[j]), V };
}

// An orthonormal basis of the rows of A, (m, n), as the columns of (n, r): what is beside rounding.
export function basisOf(A, m, n) {
  if (m === 0) return { basis: new Float64Array(0), rank: 0 };
  const { s, V } = svd(A, m, n), least = Math.max(m, n) * Number.EPSILON * s[0], width = s.length;
  const rank = s.filter((value) => value > least).length, basis = new Float64Array(n * rank);
  for (let i = 0; i < n; i++) for (let j = 0; j < rank; j++) basis[i * rank + j] = V[i * width + j];
  return { basis, rank };
}

// Orthonormal columns of A, (m, n), one after another, each turned so that A's own column lies on its side.
export function orthonormalised(A, m, n) {
  const Q = A.slice();
  for (let j = 0; j < n; j++) {
    for (let pass = 0; pass < 2; pass++) for (let k = 0; k < j; k++) {
      let along = 0;
      for (let i = 0; i < m; i++) along += Q[i * n + k] * Q[i * n + j];
      for (let i = 0; i < m; i++) Q[i * n + j] -= along * Q[i * n + k];
    }
    let size = 0;
    for (let i = 0; i < m; i++) size = Math.hypot(size, Q[i * n + j]);
    for (let i = 0; i < m; i++) Q[i * n + j] /= size;
  }
  return Q;
}

// The largest eigenvalue of a symmetric tridiagonal matrix, between its bounds, by counting signs.
function largestOfTridiagonal(diagonal, beside, size) {
  let low = Infinity, high = -Infinity;
  for (let i = 0; i < size; i++) {
    const reach = (i > 0 ? Math.abs(beside[i - 1]) : 0) + (i + 1 < size ? Math.abs(beside[i]) : 0);
    low = Math.min(low, diagonal[i]);
    high = Math.max(high, diagonal[i] + reach);
  }
  const isAbove = (x) => { // whether all eigenvalues are below x
    let d = x - diagonal[0];
    for (let i = 1; i < size && d > 0; i++) d = x - diagonal[i] - (beside[i - 1] * beside[i - 1]) / d;
    return d > 0;
  };
  for (let k = 0; k < 80 && high - low > 1e-16 * Math.max(Math.abs(low), Math.abs(high)); k++) {
    const middle = (low + high) / 2;
    if (middle <= low || middle >= high) break;
    if (isAbove(middle)) high = middle; else low = middle;
  }
  return (low + high) / 2;
}

// An eigenvector of a symmetric tridiagonal matrix, by inverse iteration beside its eigenvalue.
function eigenvectorOfTridiagonal(diagonal, beside, value, size) {
  let v = new Float64Array(size).fill(1);
  const shift = value + 4 * Number.EPSILON * Math.max(Math.abs(value), Number.MIN_VALUE * 2 ** 60);
  for (let round = 0; round < 3; round++) {
    const d = new Float64Array(size), y = v.slice(); // elimination without pivots: all of it lies below the shift
    for (let i = 0; i < size; i++) {
      const below = i ? beside[i - 1] / d[i - 1] : 0;
      d[i] = diagonal[i] - shift - (i ? below * beside[i - 1] : 0) || -Number.EPSILON * Math.abs(shift);
      if (i) y[i] -= below * y[i - 1];
    }
    for (let i = size - 1; i >= 0; i--) y[i] = (y[i] - (i + 1 < size ? beside[i] * y[i + 1] : 0)) / d[i];
    const length = norm(y);
    v = y.map((x) => x / length);
  }
  return v;
}

// The largest eigenvalue of a symmetric operator on n numbers, by Lanczos iteration with a full basis; its unit
// eigenvector goes to `vector`, if that is given.
export function largestEigenvalue(apply, n, begin, vector = null) {
  if (n === 0) return 0;
  const ends = (value) => {
    if (vector) {
      vector.fill(0);
      eigenvectorOfTridiagonal(diagonal, beside, value, diagonal.length).forEach((share, j) => { for (let i = 0; i < n; i++) vector[i] += share * basis[j][i]; });
    }
    return value;
  };
  const basis = [], diagonal = [], beside = [], image = new Float64Array(n);
  let v = Float64Array.from(begin), size = norm(v), scale = 0, value = 0, before = Infinity;
  for (let i = 0; i < n; i++) v[i] /= size;
  for (let j = 0; j < n; j++) {
    basis.push(v);
    apply(v, image);
    const rest = image.slice(), along = dot(v, rest);
    diagonal.push(along);
    for (let pass = 0; pass < 2; pass++) for (const q of basis) { const c = dot(q, rest); for (let i = 0; i < n; i++) rest[i] -= c * q[i]; }
    const left = norm(rest);
    scale = Math.max(scale, Math.hypot(along, left, beside.at(-1) ?? 0));
    if (j % 4 === 3 || j === n - 1 || left <= 8 * n * Number.EPSILON * scale) {
      value = largestOfTridiagonal(diagonal, beside, j + 1);
      // Ritz values only rise, and at the end by less and less.
      if (left <= 8 * n * Number.EPSILON * scale || (j > 10 && Math.abs(value - before) <= 1e-15 * scale)) return ends(value);
      before = value;
    }
    beside.push(left);
    v = rest;
    for (let i = 0; i < n; i++) v[i] /= left;
  }
  return ends(value);
}
