// Level lines of a function on a grid, by marching squares: points on the grid's edges, joined into lines.

// `lines` of points as numbers x, y, x, y, ... of one level. A saddle is cut by the mean of its corners.
export function contour(values, xs, ys, level) {
  const nx = xs.length, ny = ys.length, next = new Map(), lines = [];
  // An edge is the place of its lower left corner, twice; odd where it is vertical.
  const across = (i, j) => 2 * (j * nx + i), upward = (i, j) => 2 * (j * nx + i) + 1;
  for (let j = 0; j < ny - 1; j++) for (let i = 0; i < nx - 1; i++) {
    const at = j * nx + i, a = values[at], b = values[at + 1], c = values[at + nx + 1], d = values[at + nx];
    const kind = (a > level ? 1 : 0) | (b > level ? 2 : 0) | (c > level ? 4 : 0) | (d > level ? 8 : 0);
    if (kind === 0 || kind === 15) continue;
    const south = across(i, j), east = upward(i + 1, j), north = across(i, j + 1), west = upward(i, j);
    const edges = [south, east, north, west], isHigh = (a + b + c + d) / 4 > level;
    for (const [from, to] of CUTS[kind === 5 && !isHigh ? 16 : kind === 10 && !isHigh ? 17 : kind]) next.set(edges[from], edges[to]);
  }
  const isEnd = new Set(next.values()), point = (edge, line) => {
    const place = Math.floor(edge / 2), i = place % nx, j = Math.floor(place / nx), isUp = edge % 2 === 1;
    const low = values[place], high = values[place + (isUp ? nx : 1)], share = (level - low) / (high - low);
    line.push(isUp ? xs[i] : xs[i] + share * (xs[i + 1] - xs[i]), isUp ? ys[j] + share * (ys[j + 1] - ys[j]) : ys[j]);
  };
  const trace = (first) => {
    const line = [];
    let edge = first;
    do {
      point(edge, line);
      const ahead = next.get(edge);
      next.delete(edge);
      edge = ahead;
    } while (edge !== undefined && edge !== first);
    if (edge === first) point(first, line);
    lines.push(line);
  };
  for (const edge of [...next.keys()]) if (!isEnd.has(edge) && next.has(edge)) trace(edge); // from the border
  for (const edge of [...next.keys()]) if (next.has(edge)) trace(edge); // closed
  return lines;
}

// Which edges (south, east, north, west) a line goes through, what is higher on its left; saddles come twice.
const CUTS = [
  [], [[0, 3]], [[1, 0]], [[1, 3]], [[2, 1]], [[0, 1], [2, 3]], [[2, 0]], [[2, 3]], [[3, 2]], [[0, 2]], [[1, 2], [3, 0]], [[1, 2]],
  [[3, 1]], [[0, 1]], [[3, 0]], [], [[0, 3], [2, 1]], [[1, 0], [3, 2]],
];
