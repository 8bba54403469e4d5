// Two pens with the same strokes: one draws on a canvas, one writes SVG. Pictures know neither.

const FONT = 'system-ui, "Segoe UI", "DejaVu Sans", sans-serif';

export class CanvasPen {
  constructor(context) { this.c = context; }

  clip(x, y, w, h, draw) {
    this.c.save();
    this.c.beginPath();
    this.c.rect(x, y, w, h);
    this.c.clip();
    draw();
    this.c.restore();
  }

  trace(points, close = false) {
    this.c.beginPath();
    let up = true; // what is not finite lifts the pen
    for (let i = 0; i < points.length; i += 2) {
      const x = points[i], y = points[i + 1];
      if (!(Number.isFinite(x) && Number.isFinite(y))) { up = true; continue; }
      if (up) this.c.moveTo(x, y); else this.c.lineTo(x, y);
      up = false;
    }
    if (close) this.c.closePath();
  }

  line(points, { stroke = '#000', width = 1, dash = [], alpha = 1 } = {}) {
    this.c.globalAlpha = alpha;
    this.c.strokeStyle = stroke;
    this.c.lineWidth = width;
    this.c.lineJoin = 'round';
    this.c.setLineDash(dash);
    this.trace(points);
    this.c.stroke();
    this.c.setLineDash([]);
    this.c.globalAlpha = 1;
  }

  area(points, { fill = '#000', stroke = null, width = 1, alpha = 1 } = {}) {
    this.c.globalAlpha = alpha;
    this.trace(points, true);
    if (fill) { this.c.fillStyle = fill; this.c.fill(); }
    if (stroke) { this.c.strokeStyle = stroke; this.c.lineWidth = width; this.c.stroke(); }
    this.c.globalAlpha = 1;
  }

  disc(x, y, r, { fill = '#000', stroke = null, width = 1, alpha = 1 } = {}) {
    this.c.globalAlpha = alpha;
    this.c.beginPath();
    this.c.arc(x, y, r, 0, 2 * Math.PI);
    if (fill) { this.c.fillStyle = fill; this.c.fill(); }
    if (stroke) { this.c.strokeStyle = stroke; this.c.lineWidth = width; this.c.stroke(); }
    this.c.globalAlpha = 1;
  }

  text(words, x, y, { size = 11, fill = '#333', align = 'left', base = 'alphabetic', halo = null, bold = false, turn = 0 } = {}) {
    this.c.save();
    this.c.translate(x, y);
    this.c.rotate(turn);
    this.c.font = `${bold ? '600 ' : ''}${size}px ${FONT}`;
    this.c.textAlign = align;
    this.c.textBaseline = base;
    if (halo) { this.c.strokeStyle = halo; this.c.lineWidth = 3; this.c.lineJoin = 'round'; this.c.strokeText(words, 0, 0); }
    this.c.fillStyle = fill;
    this.c.fillText(words, 0, 0);
    this.c.restore();
  }

  image(picture, x, y, w, h) {
    this.c.imageSmoothingEnabled = true;
    this.c.drawImage(picture, x, y, w, h);
  }
}

const escape = (words) => String(words).replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c]);
const short = (v) => +v.toFixed(2);

export class SvgPen {
  constructor(width, height) { this.size = [width, height]; this.parts = []; this.clips = 0; this.shift = [0, 0]; }

  clip(x, y, w, h, draw) {
    const id = `c${this.clips++}`;
    this.parts.push(`<clipPath id="${id}"><rect x="${short(x)}" y="${short(y)}" width="${short(w)}" height="${short(h)}"/></clipPath><g clip-path="url(#${id})">`);
    draw();
    this.parts.push('</g>');
  }

  path(points, close) {
    let d = '', up = true;
    for (let i = 0; i < points.length; i += 2) {
      const x = points[i], y = points[i + 1];
      if (!(Number.isFinite(x) && Number.isFinite(y))) { up = true; continue; }
      d += `${up ? 'M' : 'L'}${short(x)} ${short(y)}`;
      up = false;
    }
    return close && d ? d + 'Z' : d;
  }

  line(points, { stroke = '#000', width = 1, dash = [], alpha = 1 } = {}) {
    const d = this.path(points, false);
    if (d) this.parts.push(`<path d="${d}" fill="none" stroke="${stroke}" stroke-width="${width}" stroke-linejoin="round" opacity="${alpha}"${dash.length ? ` stroke-dasharray="${dash}"` : ''}/>`);
  }

  area(points, { fill = '#000', stroke = null, width = 1, alpha = 1 } = {}) {
    const d = this.path(points, true);
    if (d) this.parts.push(`<path d="${d}" fill="${fill || 'none'}" opacity="${alpha}"${stroke ? ` stroke="${stroke}" stroke-width="${width}"` : ''}/>`);
  }

  disc(x, y, r, { fill = '#000', stroke = null, width = 1, alpha = 1 } = {}) {
    if (!(Number.isFinite(x) && Number.isFinite(y))) return;
    this.parts.push(`<circle cx="${short(x)}" cy="${short(y)}" r="${r}" fill="${fill || 'none'}" opacity="${alpha}"${stroke ? ` stroke="${stroke}" stroke-width="${width}"` : ''}/>`);
  }

  text(words, x, y, { size = 11, fill = '#333', align = 'left', base = 'alphabetic', halo = null, bold = false, turn = 0 } = {}) {
    const anchor = { left: 'start', center: 'middle', right: 'end' }[align];
    const down = { alphabetic: 0, middle: 0.35 * size, top: 0.8 * size, bottom: -0.2 * size }[base] ?? 0;
    const spin = turn ? ` transform="rotate(${short(turn * 180 / Math.PI)} ${short(x)} ${short(y)})"` : '';
    const edge = halo ? ` stroke="${halo}" stroke-width="3" paint-order="stroke" stroke-linejoin="round"` : '';
    this.parts.push(`<text x="${short(x)}" y="${short(y)}" dy="${short(down)}" font-size="${size}" fill="${fill}" text-anchor="${anchor}"${bold ? ' font-weight="600"' : ''}${edge}${spin}>${escape(words)}</text>`);
  }

  image(picture, x, y, w, h) {
    this.parts.push(`<image href="${picture.toDataURL()}" x="${short(x)}" y="${short(y)}" width="${short(w)}" height="${short(h)}" preserveAspectRatio="none"/>`);
  }

  group(x, y, draw) {
    this.parts.push(`<g transform="translate(${x} ${y})">`);
    draw();
    this.parts.push('</g>');
  }

  toString() {
    const [w, h] = this.size;
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${w}" height="${h}" viewBox="0 0 ${w} ${h}" font-family="${escape(FONT)}"><rect width="${w}" height="${h}" fill="#fff"/>${this.parts.join('')}</svg>`;
  }
}

// A canvas whose drawing is kept, so that a moving cursor redraws nothing else.
export class Panel {
  constructor(canvas, drawBase, drawCursor) {
    this.canvas = canvas;
    this.kept = document.createElement('canvas');
    this.drawBase = drawBase;
    this.drawCursor = drawCursor;
  }

  // The canvas's size; asked for only when the page's layout may have changed.
  measure() { this.box = { w: this.canvas.clientWidth, h: this.canvas.clientHeight }; }

  base() {
    if (!this.box?.w) this.measure();
    const { w, h } = this.box, ratio = window.devicePixelRatio || 1;
    if (!w || !h) return;
    for (const each of [this.canvas, this.kept]) {
      const width = Math.round(w * ratio), height = Math.round(h * ratio);
      if (each.width !== width || each.height !== height) { each.width = width; each.height = height; }
    }
    const c = this.kept.getContext('2d');
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.fillStyle = '#fff';
    c.fillRect(0, 0, w, h);
    this.drawBase(new CanvasPen(c), w, h);
    this.cursor();
  }

  cursor() {
    const { w, h } = this.box ?? {}, ratio = window.devicePixelRatio || 1;
    if (!w || !h || !this.kept.width) return;
    const c = this.canvas.getContext('2d');
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.drawImage(this.kept, 0, 0);
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.drawCursor(new CanvasPen(c), w, h);
  }
}
