const root = document.documentElement;
const data = JSON.parse(document.getElementById('plan-data').textContent);
const areaNames = ['parameters', 'optimizer state', 'gradients', 'activations', 'inputs', 'workspace', 'context'];
const roleNames = ['parameter', 'gradient', 'optimizer state', 'activation', 'input', 'temporary', 'workspace'];
const roleAreas = [0, 2, 1, 3, 4, 3, 5];
const stackOrder = [6, 0, 1, 2, 3, 4, 5];  // from the bottom; the context is there all the time
const phaseNames = ['initialize', 'forward', 'backward', 'update', 'evaluate'];

// ---- Numbers in words ----

const grouped = (number) => Math.round(number).toLocaleString('en-US');

function formatBytes(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
  let unit = 0;
  while (unit + 1 < units.length && bytes >= (unit === 0 ? 1024 : 1023.5)) {
    bytes /= 1024;
    ++unit;
  }
  return bytes.toFixed(unit === 0 || bytes >= 100 ? 0 : bytes >= 10 ? 1 : 2) + ' ' + units[unit];
}

function formatTime(nanoseconds) {
  const [value, unit] = nanoseconds >= 1e9 ? [nanoseconds / 1e9, 's'] : nanoseconds >= 1e6 ? [nanoseconds / 1e6, 'ms']
      : nanoseconds >= 1e3 ? [nanoseconds / 1e3, 'µs'] : [nanoseconds, 'ns'];
  return +value.toPrecision(3) + ' ' + unit;
}

const percent = (part, whole) => whole > 0 ? (100 * part / whole).toFixed(1) + ' %' : '–';

// ---- The data, unpacked ----

const sums = (deltas) => {
  let sum = 0;
  return deltas.map((delta) => sum += delta);
};

const ops = {
  total: data.ops.total,
  index: sums(data.ops.index),
  start: data.ops.start ? sums(data.ops.start) : null,
};

// The last entry of an ascending list that is at most `value`.
function lastAtMost(list, value) {
  let low = 0, high = list.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (list[middle] <= value) low = middle; else high = middle - 1;
  }
  return low;
}

const text = (id) => data.strings[id];
const segmentOf = (op) => data.segments.find(([, begin, end]) => begin <= op && op < end);

function opAt(op) {
  const i = lastAtMost(ops.index, op);
  const phase = data.ops.phase[i];
  const segment = segmentOf(op);
  return {
    name: text(data.ops.name[i]),
    module: text(data.ops.module[i]),
    phase: phase & 7,
    again: phase >= 8,
    segment: segment ? segment[0] : '',
    nanoseconds: ops.start && ops.index[i + 1] === op + 1 ? ops.start[i + 1] - ops.start[i] : null,
  };
}

function describeOp(op) {
  const {name, module, phase, again} = opAt(op);
  return `op ${grouped(op + 1)}: ${name}${module ? ' in ' + module : ''} (${phaseNames[phase]}${again ? ', recomputed' : ''})`;
}

const points = {op: sums(data.points.op), areas: data.points.areas.map(sums)};
points.count = points.op.length;
points.total = points.op.map((_, i) => points.areas.reduce((sum, area) => sum + area[i], 0) * data.unit);
const phases = points.op.map((op) => data.ops.phase[lastAtMost(ops.index, op)]);

const buffers = data.buffers;
buffers.count = buffers.label.length;

const exchanges = {op: sums(data.exchanges.op), length: data.exchanges.length, bytes: data.exchanges.bytes};
exchanges.count = exchanges.op.length;

// The exchange that begins with an op; -1: the op is none.
function exchangeAt(op) {
  const i = exchanges.count > 0 ? lastAtMost(exchanges.op, op) : -1;
  return i >= 0 && exchanges.op[i] === op ? i : -1;
}

function placedBytes(bytes) { return Math.ceil(bytes / data.unit) * data.unit; }

// ---- The horizontal axis: ops, or predicted nanoseconds; both charts show the same part of it ----

const view = {time: false, from: 0, to: ops.total};

function positionOf(op) {
  return view.time ? ops.start[lastAtMost(ops.index, op)] : op;
}

const axisEnd = () => positionOf(ops.total);

function placeOnAxis() {
  points.from = points.op.map(positionOf);
  points.from.push(axisEnd());
  exchanges.from = exchanges.op.map(positionOf);
  exchanges.to = exchanges.op.map((op, i) => positionOf(op + exchanges.length[i]));
  buffers.from = buffers.birth.map(positionOf);
  buffers.to = buffers.birth.map((birth, i) => positionOf(birth + buffers.length[i]));
}

const pointAt = (position) => Math.min(lastAtMost(points.from, position), points.count - 1);

function setView(from, to) {
  const end = axisEnd(), least = Math.max(end * 1e-6, view.time ? 1 : 2);
  const width = Math.min(Math.max(to - from, least), end);
  view.from = Math.min(Math.max(from, 0), end - width);
  view.to = view.from + width;
}

// ---- The tooltip: built of nodes, never of markup, for names are anyone's ----

const tip = document.getElementById('tip');

function node(tag, content, kind) {
  const made = document.createElement(tag);
  if (content !== undefined) made.textContent = content;
  if (kind) made.className = kind;
  return made;
}

// `rows`: [name, value, area or undefined, kind or undefined]
function showTip(x, y, title, under, rows, numbers) {
  const list = node('dl', undefined, numbers ? 'numbers' : '');
  for (const [name, value, area, kind] of rows) {
    const term = node('dt', undefined, kind);
    if (area !== undefined) term.append(node('span', '', 'swatch a' + area));
    term.append(name);
    list.append(term, node('dd', value, kind));
  }
  tip.replaceChildren(node('b', title), node('span', under, 'under'), list);
  tip.hidden = false;
  const box = tip.getBoundingClientRect(), edge = 8;
  const beside = x + 16 + box.width <= innerWidth - edge ? x + 16 : x - 16 - box.width;
  tip.style.left = Math.max(edge, Math.min(beside, innerWidth - edge - box.width)) + 'px';
  tip.style.top = Math.max(edge, Math.min(y + 14, innerHeight - edge - box.height)) + 'px';
}

function hideTip() { tip.hidden = true; }

function showPointTip(point, x, y) {
  const op = points.op[point], total = points.total[point];
  const {name, module, phase, again, segment, nanoseconds} = opAt(op);
  const rows = [];
  for (const area of stackOrder.slice().reverse()) {
    const bytes = points.areas[area][point] * data.unit;
    if (bytes > 0) rows.push([areaNames[area], formatBytes(bytes), area]);
  }
  rows.push(['live', formatBytes(total), undefined, 'strong']);
  if (data.budget > 0) rows.push(['of the budget', percent(total, data.budget)]);
  const exchange = exchangeAt(op);
  if (exchange >= 0) rows.push(['sent to other ranks', formatBytes(exchanges.bytes[exchange])]);
  const under = [module, `${phaseNames[phase]}${again ? ', recomputed' : ''}${segment ? ', ' + segment : ''}`,
    `op ${grouped(op + 1)} of ${grouped(ops.total)}`, nanoseconds === null ? '' : formatTime(nanoseconds)];
  showTip(x, y, name, under.filter(Boolean).join(' · '), rows, true);
}

function showExchangeTip(index, x, y) {
  const op = exchanges.op[index], length = exchanges.length[index], bytes = exchanges.bytes[index];
  const {name, module, phase, segment} = opAt(op);
  const rows = [['sent to other ranks', `${formatBytes(bytes)} (${grouped(bytes)} bytes)`]];
  if (view.time) rows.push(['predicted time', formatTime(exchanges.to[index] - exchanges.from[index])]);
  if (length > 1) rows.push(['waited for by', describeOp(op + length - 1)]);
  const under = [module, `${phaseNames[phase]}${segment ? ', ' + segment : ''}`,
    `op ${grouped(op + 1)} of ${grouped(ops.total)}`];
  showTip(x, y, name, under.filter(Boolean).join(' · '), rows);
}

function showBufferTip(index, x, y) {
  const birth = buffers.birth[index], last = birth + buffers.length[index] - 1, flags = buffers.flags[index];
  const bytes = buffers.bytes[index];
  const share = percent(buffers.to[index] - buffers.from[index], axisEnd());
  const rows = [
    ['size', `${formatBytes(bytes)} (${grouped(bytes)} bytes)`],
    ['place', `at ${formatBytes(buffers.offset[index] * data.unit)} of ${formatBytes(data.arena)}`],
  ];
  if (flags & 1) {
    rows.push(['life', 'kept from step to step']);
  } else {
    rows.push(['made by', describeOp(birth)]);
    if (flags & 2) rows.push(['kept', 'to the end: the host reads it']);
    else if (last > birth) rows.push(['last used by', describeOp(last)]);
    rows.push(['life', `${grouped(buffers.length[index])} ${buffers.length[index] === 1 ? 'op' : 'ops'}, ${share} of the ${view.time ? 'time' : 'trace'}`]);
  }
  const module = flags & 1 ? '' : opAt(birth).module;
  showTip(x, y, text(buffers.label[index]), [roleNames[buffers.role[index]], module].filter(Boolean).join(' · '), rows);
}
