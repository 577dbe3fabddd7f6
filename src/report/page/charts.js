// ---- Drawing surfaces ----

let color = {};

function readColors() {
  const style = getComputedStyle(root);
  const value = (name) => style.getPropertyValue('--' + name).trim();
  color = Object.fromEntries(['back', 'ink', 'soft', 'faint', 'line', 'grid', 'accent', 'forward', 'backward', 'update',
    'again', 'exchange'].map((name) => [name, value(name)]));
  color.areas = areaNames.map((_, area) => value('area-' + area));
  color.font = getComputedStyle(document.body).fontFamily;
}

const ratio = () => window.devicePixelRatio || 1;
const crisp = (value) => Math.round(value * ratio()) / ratio();

function surface(canvas) {
  const {width, height} = canvas.getBoundingClientRect();
  const w = Math.max(1, Math.round(width * ratio())), h = Math.max(1, Math.round(height * ratio()));
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
  }
  const g = canvas.getContext('2d');
  g.setTransform(ratio(), 0, 0, ratio(), 0, 0);
  g.clearRect(0, 0, width, height);
  g.font = '12px ' + color.font;
  g.textBaseline = 'middle';
  return {g, width, height};
}

function chart(id) {
  const box = document.getElementById(id);
  if (!box) return null;
  const [base, over] = box.querySelectorAll('canvas');
  return {box, base, over, left: 0, right: 0, top: 0, bottom: 0, low: 0, high: 1};
}

const timeline = chart('timeline'), arena = chart('arena');
const toX = (c, position) => c.left + (position - view.from) / (view.to - view.from) * (c.right - c.left);
const fromX = (c, x) => view.from + (x - c.left) / (c.right - c.left) * (view.to - view.from);
const toY = (c, bytes) => c.bottom - (bytes - c.low) / (c.high - c.low) * (c.bottom - c.top);
const fromY = (c, y) => c.low + (c.bottom - y) / (c.bottom - c.top) * (c.high - c.low);

function line(g, x0, y0, x1, y1, stroke, width, dash) {
  g.strokeStyle = stroke;
  g.lineWidth = width;
  g.setLineDash(dash || []);
  g.beginPath();
  g.moveTo(x0, y0);
  g.lineTo(x1, y1);
  g.stroke();
  g.setLineDash([]);
}

function shortened(g, full, room) {
  if (g.measureText(full).width <= room) return full;
  // The end of a dotted name tells more than its start.
  for (let cut = 1; full.length - cut >= 8; cut += Math.max(1, Math.floor((full.length - cut) / 12))) {
    const rest = '…' + full.slice(cut);
    if (g.measureText(rest).width <= room) return rest;
  }
  return '';
}

// Steps of 1, 2, 4, ... 512 of a binary unit.
function byteTicks(low, high) {
  let step = 1;
  while ((high - low) / step > 6) step *= 2;
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high; tick += step) ticks.push(tick);
  return ticks;
}

function decimalTicks(from, to, most) {
  const rough = (to - from) / Math.max(1, most), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const ticks = [];
  for (let tick = Math.ceil(from / step) * step; tick <= to + step * 1e-9; tick += step) ticks.push(tick);
  return ticks;
}

// "0", "0.5 GiB", "1 GiB"; "5,440 MiB", "5,504 MiB": exact, and in the largest unit that takes quarters for the step.
function tickNames(ticks) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
  const step = ticks.length > 1 ? ticks[1] - ticks[0] : Math.max(ticks[0] || 0, 1);
  let unit = units.length - 1;
  while (unit > 0 && !Number.isInteger(4 * step / 1024 ** unit)) --unit;
  return ticks.map((tick) => tick === 0 ? '0' : (tick / 1024 ** unit).toLocaleString('en-US') + ' ' + units[unit]);
}

function layOut(c, low, high, top, bottom) {
  const {g, width, height} = surface(c.base);
  Object.assign(c, {g, width, height, left: width < 520 ? 62 : 74, right: width - 10, top, bottom: height - bottom, low, high});
  return g;
}

function drawByteAxis(c) {
  const g = c.g;
  g.textAlign = 'right';
  const ticks = byteTicks(c.low, c.high), names = tickNames(ticks);
  ticks.forEach((tick, i) => {
    const y = crisp(toY(c, tick)) - 0.5 / ratio();
    line(g, c.left, y, c.right, y, color.grid, 1);
    g.fillStyle = color.soft;
    g.fillText(names[i], c.left - 8, y);
  });
}

function drawOpAxis(c) {
  const g = c.g;
  g.fillStyle = color.soft;
  const ticks = decimalTicks(view.from, view.to, (c.right - c.left) / 110);
  ticks.forEach((tick) => {
    const x = toX(c, tick), name = view.time ? (tick === 0 ? '0' : formatTime(tick)) : (tick === 0 ? 'op 0' : grouped(tick));
    g.textAlign = x > c.right - 24 ? 'right' : x < c.left + 24 ? 'left' : 'center';
    g.fillText(name, x, c.height - 8);
  });
}

function drawSegments(c, labels) {
  const g = c.g;
  g.textAlign = 'left';
  for (const [name, begin, end] of data.segments) {
    const x0 = toX(c, positionOf(begin)), x1 = toX(c, positionOf(end));
    if (x1 < c.left || x0 > c.right || begin === end) continue;
    if (x0 > c.left) line(g, crisp(x0), labels ? 0 : c.top, crisp(x0), c.bottom, color.faint, 1, [2, 3]);
    if (!labels) continue;
    g.fillStyle = color.soft;
    const from = Math.max(x0, c.left), room = Math.min(x1, c.right) - from - 6;
    if (g.measureText(name).width <= room) g.fillText(name, from + 5, 9);
  }
}

// A line of the budget, or where it is when it is off the chart.
function drawBudget(c, bytes, name, taken) {
  if (data.budget <= 0 || bytes < c.low) return;
  const g = c.g, over = bytes > c.high, y = over ? c.top + 1 : toY(c, bytes);
  if (over && c.low > 0) return;
  if (!over) {
    line(g, c.left, crisp(y), c.right, crisp(y), color.back, 3.5);
    line(g, c.left, crisp(y), c.right, crisp(y), color.accent, 1.5, [6, 4]);
  }
  const label = `${name} ${formatBytes(bytes)}${over ? ' ↑' : ''}`;
  // At the right, unless that is where the peak's own label stands.
  const right = taken === undefined || taken < c.right - 12 - g.measureText(label).width;
  g.textAlign = right ? 'right' : 'left';
  halo(g, label, right ? c.right - 4 : c.left + 4, y + (over || y - c.top < 16 ? 10 : -9), color.accent);
}

function halo(g, label, x, y, fill, around = color.back) {
  g.lineJoin = 'round';
  g.lineWidth = 4;
  g.strokeStyle = around;
  g.strokeText(label, x, y);
  g.fillStyle = fill;
  g.fillText(label, x, y);
}

// ---- The timeline ----

// Calls `visit(x0, x1, point)` for runs of device pixels that show the same point: the fullest that falls into a pixel,
// so that no peak is lost however many ops there are.
function forEachColumn(c, visit) {
  const columns = Math.max(1, Math.round((c.right - c.left) * ratio()));
  let first = pointAt(view.from), run = -1, runStart = 0;
  for (let column = 0; column <= columns; ++column) {
    let best = -1;
    if (column < columns) {
      const low = view.from + column / columns * (view.to - view.from);
      const high = view.from + (column + 1) / columns * (view.to - view.from);
      while (first + 1 < points.count && points.from[first + 1] <= low) ++first;
      best = first;
      for (let p = first + 1; p < points.count && points.from[p] < high; ++p)
        if (points.total[p] > points.total[best]) best = p;
    }
    if (best === run) continue;
    if (run >= 0) visit(c.left + runStart / ratio(), c.left + column / ratio(), run);
    run = best;
    runStart = column;
  }
}

const phaseColor = (phase) => [color.update, color.forward, color.backward, color.update, color.forward][phase];
const peakPoint = lastAtMost(points.op, data.peakOp);

// The budget is shown to scale unless it is so far above that the step would be a stripe.
function timelineTop() {
  const near = data.budget > 0 && data.budget <= 1.8 * data.peak;
  return 1.1 * (near ? Math.max(data.budget, data.peak) : data.peak);
}

function drawTimeline() {
  const c = timeline, g = layOut(c, 0, Math.max(timelineTop(), 1), 20, exchanges.count > 0 ? 58 : 40);
  drawByteAxis(c);
  forEachColumn(c, (x0, x1, point) => {
    let bytes = 0, y = c.bottom;
    for (const area of stackOrder) {
      bytes += points.areas[area][point] * data.unit;
      const next = crisp(toY(c, bytes));
      if (next >= y) continue;
      g.fillStyle = color.areas[area];
      g.fillRect(x0, next, x1 - x0, y - next);
      y = next;
    }
    const phase = phases[point];
    g.fillStyle = phase >= 8 ? color.again : phaseColor(phase);
    g.fillRect(x0, c.bottom + 3, x1 - x0, 14);
  });
  drawPhaseNames(c);
  if (exchanges.count > 0) drawExchanges(c);
  drawSegments(c, true);
  drawOpAxis(c);
  const peak = placePeak(c);
  drawBudget(c, data.budget, 'budget', peak?.end);
  if (peak) drawPeak(c, peak);
}

function drawPhaseNames(c) {
  const g = c.g;
  g.textAlign = 'left';
  g.font = '11px ' + color.font;
  g.fillStyle = color.ink;
  for (let p = 0; p < points.count;) {
    let end = p + 1;
    // Ops that are run again do not interrupt the phase that they are run in.
    while (end < points.count && (phases[end] >= 8 || phases[end] === (phases[p] & 7))) ++end;
    const x0 = Math.max(toX(c, points.from[p]), c.left), x1 = Math.min(toX(c, points.from[end]), c.right);
    const name = phaseNames[phases[p] & 7];
    if (x1 - x0 > g.measureText(name).width + 10)
      halo(g, name, x0 + 5, c.bottom + 10.5, color.ink, phaseColor(phases[p] & 7));
    p = end;
  }
  g.font = '12px ' + color.font;
}

const exchangeLane = {top: 21, height: 11};  // below the bottom of the chart

function drawExchanges(c) {
  const g = c.g, y = c.bottom + exchangeLane.top, pixel = 1 / ratio();
  g.fillStyle = color.grid;
  g.fillRect(c.left, y, c.right - c.left, exchangeLane.height);
  g.fillStyle = color.exchange;
  for (let i = 0; i < exchanges.count; ++i) {
    const x0 = crisp(Math.max(toX(c, exchanges.from[i]), c.left)), x1 = crisp(Math.min(toX(c, exchanges.to[i]), c.right));
    if (x1 < c.left || x0 > c.right) continue;
    g.fillRect(x0, y, Math.max(x1 - x0, pixel), exchangeLane.height);
  }
  g.textAlign = 'right';
  g.font = '11px ' + color.font;
  g.fillStyle = color.soft;
  g.fillText('exchanges', c.left - 6, y + exchangeLane.height / 2);
  g.font = '12px ' + color.font;
}

// The exchange under a point of the timeline; of a very short one, a near miss counts. -1: there is none.
function exchangeUnder(c, x, y) {
  const top = c.bottom + exchangeLane.top;
  if (y < top || y > top + exchangeLane.height) return -1;
  let found = -1, nearest = 2.5;
  for (let i = 0; i < exchanges.count && nearest > 0; ++i) {
    const away = Math.max(toX(c, exchanges.from[i]) - x, x - toX(c, exchanges.to[i]), 0);
    if (away < nearest) {
      nearest = away;
      found = i;
    }
  }
  return found;
}

// Where the peak's marker and label stand, if they are in sight.
function placePeak(c) {
  const middle = (points.from[peakPoint] + points.from[peakPoint + 1]) / 2;
  if (middle < view.from || middle > view.to) return null;
  const g = c.g, x = toX(c, middle), label = 'peak ' + formatBytes(data.peak);
  g.font = '600 12px ' + color.font;
  const width = g.measureText(label).width, right = x + 10 + width < c.right;
  g.font = '12px ' + color.font;
  return {x, y: toY(c, data.peak), label, right, end: right ? x + 8 + width : x};
}

function drawPeak(c, {x, y, label, right}) {
  const g = c.g;
  line(g, x, y, x, c.bottom, color.ink, 1, [1, 3]);
  g.beginPath();
  g.arc(x, y, 4.5, 0, 2 * Math.PI);
  g.fillStyle = color.ink;
  g.fill();
  g.lineWidth = 1.5;
  g.strokeStyle = color.back;
  g.stroke();
  g.textAlign = right ? 'left' : 'right';
  g.font = '600 12px ' + color.font;
  halo(g, label, x + (right ? 8 : -8), y - 11, color.ink);
  g.font = '12px ' + color.font;
}

// ---- The arena map ----

let mapLow = 0, mapHigh = 0;  // bytes shown; zoomed by a drag

function mapTop() {
  const budget = data.budget - data.context;
  return data.budget > 0 && budget <= 1.3 * data.arena ? 1.04 * Math.max(budget, data.arena) : 1.04 * data.arena;
}

function bufferBox(c, i) {
  const x0 = toX(c, buffers.from[i]), x1 = toX(c, buffers.to[i]);
  const y1 = toY(c, buffers.offset[i] * data.unit), y0 = toY(c, buffers.offset[i] * data.unit + placedBytes(buffers.bytes[i]));
  return {x0, y0, x1, y1};
}

// Near-black or near-white, whichever reads on the color.
const inkOn = new Map();
function labelColor(fill) {
  if (!inkOn.has(fill)) {
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(fill.slice(at, at + 2), 16));
    inkOn.set(fill, 0.299 * r + 0.587 * g + 0.114 * b > 112 ? '#16191d' : '#ffffff');
  }
  return inkOn.get(fill);
}

function drawArena() {
  const c = arena, g = layOut(c, mapLow, mapHigh, 6, 22);
  drawByteAxis(c);
  g.save();
  g.beginPath();
  g.rect(c.left, c.top, c.right - c.left, c.bottom - c.top);
  g.clip();
  g.font = '11px ' + color.font;
  g.textAlign = 'left';
  const pixel = 1 / ratio();
  // On whole pixels, so that neighbors leave no pale seam. Of many buffers in one pixel, the one at its middle is seen:
  // areas stay true. Buffers thinner than a pixel come first, as wide as one, to be seen where nothing else lies.
  const place = (i) => {
    const {x0, y0, x1, y1} = bufferBox(c, i);
    if (x1 < c.left || x0 > c.right || y1 < c.top || y0 > c.bottom) return null;
    const x = crisp(Math.max(x0, c.left - 2)), y = crisp(Math.max(y0, c.top - 2));
    return {x, y, w: crisp(Math.min(x1, c.right + 2)) - x, h: crisp(Math.min(y1, c.bottom + 2)) - y};
  };
  const boxes = buffers.label.map((_, i) => place(i));
  const fillOf = (i) => color.areas[roleAreas[buffers.role[i]]];
  boxes.forEach((box, i) => {
    if (!box || (box.w > 0 && box.h > 0)) return;
    g.fillStyle = fillOf(i);
    g.fillRect(box.x, box.y, Math.max(box.w, pixel), Math.max(box.h, pixel));
  });
  boxes.forEach((box, i) => {
    if (!box || box.w <= 0 || box.h <= 0) return;
    const gap = box.w > 6 && box.h > 6 ? pixel : 0;
    g.fillStyle = fillOf(i);
    g.fillRect(box.x, box.y, box.w - gap, box.h - gap);
    const from = Math.max(box.x, c.left) + 5, room = Math.min(box.x + box.w, c.right) - 5 - from;
    if (box.h < 15 || room < 34) return;
    const label = shortened(g, text(buffers.label[i]), room);
    g.fillStyle = labelColor(fillOf(i));
    if (label) g.fillText(label, from, Math.max(box.y, c.top) + Math.min(10, box.h / 2));
  });
  g.restore();
  g.font = '12px ' + color.font;
  drawSegments(c, false);
  drawOpAxis(c);
  drawBudget(c, data.budget - data.context, data.context > 0 ? 'budget less context' : 'budget');
  return buffers.count;
}

// The buffer under a point of the map; of a very thin one, a near miss counts.
function bufferUnder(c, x, y) {
  let found = -1, nearest = 2.5;
  for (let i = 0; i < buffers.count && nearest > 0; ++i) {
    const {x0, y0, x1, y1} = bufferBox(c, i);
    const away = Math.max(x0 - x, x - x1, 0) + Math.max(y0 - y, y - y1, 0);
    if (away < nearest) {
      nearest = away;
      found = i;
    }
  }
  return found;
}
