// ---- The frontier ----

const frontier = data.frontier.map(([budget, peak, seconds, choices, fits]) => ({budget, peak, nanoseconds: seconds * 1e9,
  choices, known: fits && seconds > 0, fits})).sort((a, b) => a.budget - b.budget);

function shape(name, attributes, content) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (content !== undefined) made.textContent = content;
  return made;
}

function showFrontierTip(at, x, y) {
  const rows = [['budget', formatBytes(at.budget)]];
  if (at.fits) rows.push(['peak', `${formatBytes(at.peak)} (${percent(at.peak, at.budget)})`]);
  else rows.push(['takes', formatBytes(at.peak)]);
  if (at.choices) rows.push(['choices', at.choices]);
  const title = at.known ? formatTime(at.nanoseconds) + ' a step' : at.fits ? 'step time not known' : 'does not fit';
  showTip(x, y, title, '', rows);
}

// Returns how many points were drawn.
function drawFrontier() {
  const box = document.getElementById('frontier');
  if (!box) return 0;
  const {width, height} = box.getBoundingClientRect();
  const svg = shape('svg', {viewBox: `0 0 ${width} ${height}`, role: 'group', 'aria-label': 'Budget against predicted step time'});
  const left = 74, right = width - 14, top = 12, bottom = height - 42;
  const known = frontier.filter((at) => at.known);
  const ends = [...frontier.map((at) => at.budget), ...(data.budget > 0 ? [data.budget] : [])];
  const low = Math.min(...ends), high = Math.max(...ends), pad = (high - low || high || 1) * 0.05;
  const slowest = Math.max(...known.map((at) => at.nanoseconds), 0), fastest = Math.min(...known.map((at) => at.nanoseconds));
  // From zero where the times are far apart; otherwise the differences are what there is to see.
  const floor = known.length === 0 || fastest < 0.6 * slowest ? 0 : Math.max(0, fastest - (slowest - fastest || slowest * 0.1) * 0.6);
  const ceiling = slowest > 0 ? slowest + (slowest - floor) * 0.1 : 1;
  const x = (bytes) => left + (bytes - low + pad) / (high - low + 2 * pad) * (right - left);
  const y = (time) => bottom - (time - floor) / (ceiling - floor) * (bottom - top);
  for (const tick of known.length ? decimalTicks(floor, ceiling, 5) : []) {
    svg.append(shape('line', {class: 'grid', x1: left, x2: right, y1: y(tick), y2: y(tick)}));
    svg.append(shape('text', {x: left - 8, y: y(tick) + 4, 'text-anchor': 'end'}, tick === 0 ? '0' : formatTime(tick)));
  }
  svg.append(shape('line', {class: 'axis', x1: left, x2: right, y1: bottom, y2: bottom}));
  const budgets = byteTicks(Math.max(low - pad, 0), high + pad), names = tickNames(budgets);
  budgets.forEach((tick, i) => svg.append(shape('text', {x: x(tick), y: bottom + 18, 'text-anchor': 'middle'}, names[i])));
  svg.append(shape('text', {x: (left + right) / 2, y: height - 6, 'text-anchor': 'middle'}, 'memory budget'));
  if (data.budget > 0) {
    const at = x(data.budget), after = at < (left + right) / 2;
    svg.append(shape('line', {class: 'budget', x1: at, x2: at, y1: top, y2: bottom}));
    svg.append(shape('text', {class: 'mark', x: at + (after ? 6 : -6), y: top + 8, 'text-anchor': after ? 'start' : 'end'}, 'this budget'));
  }
  if (known.length > 1) svg.append(shape('polyline', {class: 'curve', points: known.map((at) => `${x(at.budget)},${y(at.nanoseconds)}`).join(' ')}));
  for (const at of frontier) {
    const px = x(at.budget), py = at.known ? y(at.nanoseconds) : bottom - 8;
    const label = `budget ${formatBytes(at.budget)}: ${at.known ? formatTime(at.nanoseconds) + ' a step' : at.fits ? 'step time not known' : 'does not fit'}`;
    const mark = shape('g', {tabindex: 0, role: 'img', 'aria-label': label});
    mark.append(shape('circle', {cx: px, cy: py, r: 12, fill: 'transparent'}));  // a wider target than what is seen
    if (at.known) mark.append(shape('circle', {class: at.budget === data.budget ? 'point here' : 'point', cx: px, cy: py, r: 5.5}));
    else mark.append(shape('path', {class: 'miss', d: `M${px - 4} ${py - 4}l8 8m0 -8l-8 8`}));
    mark.addEventListener('pointermove', (event) => showFrontierTip(at, event.clientX, event.clientY));
    mark.addEventListener('focus', () => {
      const corner = svg.getBoundingClientRect();
      showFrontierTip(at, corner.left + px, corner.top + py);
    });
    for (const leave of ['pointerleave', 'blur']) mark.addEventListener(leave, hideTip);
    svg.append(mark);
  }
  box.replaceChildren(svg);
  return frontier.length;
}
