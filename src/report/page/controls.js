// ---- What follows the pointer ----

let marked = -1;  // the buffer pointed at, in the map or in the list

function drawOver(c, position, drag) {
  const {g} = surface(c.over);
  if (position !== null) {
    const x = toX(c, position);
    if (x >= c.left && x <= c.right) line(g, crisp(x), c.top, crisp(x), c.bottom, color.ink, 1);
  }
  if (drag) {
    g.fillStyle = color.ink;
    g.globalAlpha = 0.12;
    g.fillRect(drag.x0, drag.y0, drag.x1 - drag.x0, drag.y1 - drag.y0);
    g.globalAlpha = 1;
  }
  if (marked < 0) return;
  const x0 = Math.max(toX(c, buffers.from[marked]), c.left), x1 = Math.min(toX(c, buffers.to[marked]), c.right);
  if (x1 < c.left || x0 > c.right) return;
  if (c === timeline) {
    line(g, x0, c.bottom + 1.5, Math.max(x1, x0 + 2), c.bottom + 1.5, color.ink, 3);
    return;
  }
  const box = bufferBox(c, marked), y0 = Math.max(box.y0, c.top), y1 = Math.min(box.y1, c.bottom);
  for (const [stroke, width] of [[color.back, 4], [color.ink, 2]]) {
    g.strokeStyle = stroke;
    g.lineWidth = width;
    g.strokeRect(x0 - 1, y0 - 1, Math.max(x1 - x0, 1) + 2, Math.max(y1 - y0, 1) + 2);
  }
}

function point(position, drag, dragged) {
  for (const c of [timeline, arena]) drawOver(c, position, c === dragged ? drag : null);
  for (const row of document.querySelectorAll('#residents tr.on')) row.classList.remove('on');
  if (marked >= 0) document.querySelector(`#residents tr[data-buffer="${marked}"]`)?.classList.add('on');
}

function clearPointer() {
  marked = -1;
  point(null);
  hideTip();
}

function follow(c) {
  let drag = null;
  const place = (event) => {
    const box = c.base.getBoundingClientRect();
    const x = Math.min(Math.max(event.clientX - box.left, c.left), c.right);
    const y = Math.min(Math.max(event.clientY - box.top, c.top), c.bottom);
    return {x, y};
  };
  c.base.addEventListener('pointerdown', (event) => {
    if (event.button === 0) drag = place(event);
  });
  c.base.addEventListener('pointermove', (event) => {
    const {x, y} = place(event), position = fromX(c, x);
    if (drag && Math.abs(x - drag.x) > 4) {
      hideTip();
      marked = -1;
      const whole = c === timeline;
      return point(null, {x0: Math.min(drag.x, x), x1: Math.max(drag.x, x), y0: whole ? c.top : Math.min(drag.y, y),
        y1: whole ? c.bottom : Math.max(drag.y, y)}, c);
    }
    marked = c === arena ? bufferUnder(c, x, y) : -1;
    point(position);
    if (c === timeline) {
      const exchange = exchangeUnder(c, x, event.clientY - c.base.getBoundingClientRect().top);
      if (exchange >= 0) return showExchangeTip(exchange, event.clientX, event.clientY);
      return showCursor(pointAt(position), event.clientX, event.clientY);
    }
    if (marked >= 0) showBufferTip(marked, event.clientX, event.clientY); else hideTip();
  });
  addEventListener('pointerup', (event) => {
    if (!drag) return;
    const from = drag, {x, y} = place(event);
    drag = null;
    if (Math.abs(x - from.x) <= 4) return;
    const low = fromY(c, Math.max(from.y, y)), high = fromY(c, Math.min(from.y, y));
    const [begin, end] = [fromX(c, Math.min(from.x, x)), fromX(c, Math.max(from.x, x))];
    setView(begin, end);
    // A flat drag over the map is meant for its ops alone.
    if (c === arena && Math.abs(y - from.y) > 12) [mapLow, mapHigh] = [low, high];
    showZoom(null);
  });
  c.base.addEventListener('pointercancel', () => { drag = null; });
  c.base.addEventListener('pointerleave', () => { if (!drag) clearPointer(); });
  c.base.addEventListener('dblclick', () => zoomTo(-1));
}

// ---- The timeline by keyboard ----

let cursor = peakPoint;

function showCursor(at, x, y) {
  cursor = at;
  const slider = timeline.base, op = points.op[at];
  slider.setAttribute('aria-valuenow', op + 1);
  const exchange = exchangeAt(op);
  const sent = exchange < 0 ? '' : `, ${formatBytes(exchanges.bytes[exchange])} sent to other ranks`;
  slider.setAttribute('aria-valuetext', `${describeOp(op)}, ${formatBytes(points.total[at])}${sent}`);
  showPointTip(at, x, y);
}

function onKey(event) {
  if (event.key === 'Escape') return clearPointer();
  const step = event.shiftKey ? Math.max(1, Math.round(points.count / 50)) : 1;
  const next = {ArrowRight: cursor + step, ArrowLeft: cursor - step, Home: 0, End: points.count - 1}[event.key];
  if (next === undefined) return;
  event.preventDefault();
  const at = Math.min(Math.max(next, 0), points.count - 1), middle = (points.from[at] + points.from[at + 1]) / 2;
  if (middle < view.from || middle > view.to) {
    const half = (view.to - view.from) / 2;
    setView(middle - half, middle + half);
    drawAll();
  }
  point(middle);
  const box = timeline.base.getBoundingClientRect();
  showCursor(at, box.left + toX(timeline, middle), box.top + toY(timeline, points.total[at]));
}

// ---- Zoom, axis, list of residents ----

function showZoom(pressed) {
  for (const button of document.querySelectorAll('#zoom button'))
    button.setAttribute('aria-pressed', String(button.dataset.segment === pressed));
  clearPointer();
  drawAll();
}

function zoomTo(segment) {
  const [, begin, end] = segment < 0 ? ['', 0, ops.total] : data.segments[segment];
  setView(positionOf(begin), positionOf(end));
  [mapLow, mapHigh] = [0, mapTop()];
  showZoom(String(segment));
}

function setAxis(time) {
  // The same ops stay in sight.
  const first = points.op[pointAt(view.from)], last = pointAt(view.to);
  const end = view.to >= axisEnd() ? ops.total : points.op[last];
  view.time = time;
  placeOnAxis();
  setView(positionOf(first), positionOf(end));
  for (const button of document.querySelectorAll('#axis button'))
    button.setAttribute('aria-pressed', String((button.dataset.axis === 'time') === time));
  clearPointer();
  drawAll();
}

function followResidents() {
  for (const row of document.querySelectorAll('#residents tr[data-buffer]')) {
    const button = row.querySelector('button'), index = Number(row.dataset.buffer);
    const mark = () => {
      marked = index;
      point(null);
    };
    const show = () => {
      mark();
      arena.box.scrollIntoView({block: 'nearest'});
      const {left, top} = arena.base.getBoundingClientRect(), box = bufferBox(arena, index);
      showBufferTip(index, left + Math.max((box.x0 + box.x1) / 2, arena.left), top + (box.y0 + box.y1) / 2);
    };
    row.addEventListener('mouseenter', mark);
    row.addEventListener('mouseleave', clearPointer);
    button.addEventListener('focus', mark);
    button.addEventListener('blur', clearPointer);
    button.addEventListener('click', show);
    button.addEventListener('keydown', (event) => { if (event.key === 'Escape') clearPointer(); });
  }
}

// ---- Start ----

function drawAll() {
  readColors();
  if (timeline) {
    drawTimeline();
    root.dataset.buffers = drawArena();
    point(null);
  }
  root.dataset.frontier = drawFrontier();
}

// How a script beside this one (a test, a person at the console) finds what is drawn.
window.planPage = {
  // A buffer's rectangle, and the place of an op and an amount on the timeline, in client coordinates.
  boxOf(index) {
    const {left, top} = arena.base.getBoundingClientRect(), {x0, y0, x1, y1} = bufferBox(arena, index);
    return {left: left + x0, right: left + x1, top: top + y0, bottom: top + y1};
  },
  placeOf(op, bytes) {
    const {left, top} = timeline.base.getBoundingClientRect();
    return {x: left + toX(timeline, (positionOf(op) + positionOf(op + 1)) / 2), y: top + toY(timeline, bytes)};
  },
  // The middle of an exchange's rectangle, in client coordinates.
  exchangePlace(index) {
    const {left, top} = timeline.base.getBoundingClientRect();
    return {x: left + (toX(timeline, exchanges.from[index]) + toX(timeline, exchanges.to[index])) / 2,
      y: top + timeline.bottom + exchangeLane.top + exchangeLane.height / 2};
  },
  indexOf(label) { return buffers.label.findIndex((id) => text(id) === label); },
  view,
};

if (timeline) {
  placeOnAxis();
  mapHigh = mapTop();
  for (const c of [timeline, arena]) follow(c);
  timeline.base.addEventListener('keydown', onKey);
  timeline.base.addEventListener('blur', clearPointer);
  for (const button of document.querySelectorAll('#zoom button'))
    button.addEventListener('click', () => zoomTo(Number(button.dataset.segment)));
  for (const button of document.querySelectorAll('#axis button'))
    button.addEventListener('click', () => setAxis(button.dataset.axis === 'time'));
  followResidents();
}
drawAll();
let drawnWidth = innerWidth;
addEventListener('resize', () => {
  // A phone's address bar comes and goes: only a new width is a new chart.
  if (innerWidth === drawnWidth && timeline?.base.width === Math.round(timeline.base.clientWidth * ratio())) return;
  drawnWidth = innerWidth;
  hideTip();
  drawAll();
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawAll);
root.dataset.drawn = 'true';
