// Where words can stand in a picture without covering what is drawn: cells of a grid, free or taken.

const CELL = 6; // pixels

export class Places {
  constructor(left, top, right, bottom) {
    Object.assign(this, { left, top, right, bottom, columns: Math.ceil((right - left) / CELL) });
    this.taken = new Uint8Array(this.columns * Math.max(Math.ceil((bottom - top) / CELL), 0));
  }

  cell(x, y) { return Math.floor((y - this.top) / CELL) * this.columns + Math.floor((x - this.left) / CELL); }
  has(x, y) { return x >= this.left && x < this.right && y >= this.top && y < this.bottom; }

  // What a line of points covers.
  line(points) {
    for (let i = 2; i < points.length; i += 2) {
      const [x, y, dx, dy] = [points[i - 2], points[i - 1], points[i] - points[i - 2], points[i + 1] - points[i - 1]];
      const count = Math.ceil(Math.min(Math.hypot(dx, dy), 4000) / CELL);
      for (let k = 0; k <= count; k++) {
        const px = x + (dx * k) / (count || 1), py = y + (dy * k) / (count || 1);
        if (this.has(px, py)) this.taken[this.cell(px, py)] = 1;
      }
    }
  }

  // Whether a box around a point is inside and free; `mark` takes it.
  box(x, y, half, tall, mark = false) {
    if (!(this.has(x - half, y - tall) && this.has(x + half, y + tall))) return false;
    const cells = [];
    for (let py = y - tall; ; py = Math.min(py + CELL, y + tall)) {
      for (let px = x - half; ; px = Math.min(px + CELL, x + half)) {
        cells.push(this.cell(px, py));
        if (px === x + half) break;
      }
      if (py === y + tall) break;
    }
    if (mark) for (const cell of cells) this.taken[cell] = 1;
    return cells.every((cell) => !this.taken[cell]);
  }

  // The first point at which a box is free, which it takes; null if there is none.
  first(points, half, tall) {
    for (const [x, y] of points) if (this.box(x, y, half, tall)) { this.box(x, y, half, tall, true); return [x, y]; }
    return null;
  }
}
