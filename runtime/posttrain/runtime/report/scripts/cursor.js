// The cursor of a stage: every chart shows its values at the same place of the x axis. A focused chart is a slider over
// its points.

function showCursor(group, value) {
  group.cursor = value;
  for (const chart of liveCharts(group)) {
    if (value === null) hideCursor(chart);
    else if (chart.svg.getClientRects().length) showPoint(chart, nearest(stops(chart), value));
  }
}

function showPoint(chart, index) {
  const { view } = chart;
  const value = stops(chart)[index];
  const x = view.across.to(value);
  chart.cursor.style.visibility = isInside(x) ? "visible" : "hidden";
  const [ruler, ...dots] = chart.cursor.children;
  ruler.setAttribute("x1", x);
  ruler.setAttribute("x2", x);
  const points = view.lines.map((one) => pointAt(one, value));
  view.lines.forEach((one, n) => showDot(dots[n], one, points[n], view));
  chart.readout.textContent = isOverlay(chart.data) ? runsText(chart, value, points) : pointText(chart, points[0]);
  chart.svg.setAttribute("aria-valuemax", stops(chart).length - 1);
  chart.svg.setAttribute("aria-valuenow", index);
  chart.svg.setAttribute("aria-valuetext", chart.readout.textContent);
}

function isInside(x) {
  return x >= AREA.left - 1 && x <= AREA.right + 1;
}

// The index of the point of a line at a place of the axis; -1 before its first and after its last one.
function pointAt({ places }, value) {
  if (!places.length || value < places[0] || value > places[places.length - 1]) return -1;
  return nearest(places, value);
}

// Of a run, the dot is at its value; of several ones, on the line that is drawn.
function showDot(dot, { places, columns }, point, { across, up }) {
  const x = point < 0 ? NaN : across.to(places[point]);
  dot.setAttribute("visibility", isInside(x) ? "inherit" : "hidden");
  if (!isInside(x)) return;
  dot.setAttribute("cx", x);
  dot.setAttribute("cy", up.to(columns[0][point]));
}

function hideCursor(chart) {
  chart.cursor.style.visibility = "hidden";
  chart.readout.textContent = chart.before;
}

function pointText(chart, index) {
  const { data, view } = chart;
  const line = data.lines[0];
  const { smoothed } = view.lines[0];
  const step = line.steps[index];
  const events = [
    [data.checkpoints, "checkpoint"],
    [data.evals, "evaluation"],
    [data.resumed, "resumed"],
  ].filter(([steps]) => steps.includes(step));
  return [
    `step ${step}: ${numberText(line.values[index])}${smoothed.length ? ` (smoothed ${numberText(smoothed[index])})` : ""}`,
    ...(line.tokens.length ? [`${countText(line.tokens[index])} tokens`] : []),
    ...(line.seconds.length ? [durationText(line.seconds[index])] : []),
    ...events.map(([, words]) => words),
  ].join(" \u00b7 ");
}

// The values of the runs that have one there, or around there.
function runsText(chart, value, points) {
  const { axis } = chart.view;
  const place = { steps: `step ${value}`, tokens: `${countText(value)} tokens`, seconds: durationText(value) }[axis];
  const found = chart.data.lines.flatMap((line, n) => {
    if (axis === "steps" && line.nonfinite.includes(value)) return [`${line.mark} not finite`];
    return points[n] < 0 ? [] : [`${line.mark} ${numberText(line.values[points[n]])}`];
  });
  return `${place}: ${found.join(", ")}`;
}

// The place on the x axis under the pointer.
function valueAt(chart, event) {
  return chart.view.across.from(placeAt(chart, event));
}

// The horizontal position of the pointer in the coordinates of the drawing.
function placeAt(chart, event) {
  const box = chart.svg.getBoundingClientRect();
  const place = ((event.clientX - box.left) / box.width) * AREA.width;
  return Math.max(AREA.left, Math.min(AREA.right, place));
}

function moveCursor(chart, key) {
  const { group } = chart;
  const all = stops(chart);
  const last = all.length - 1;
  const place = group.cursor === null ? -1 : nearest(all, group.cursor);
  const moves = { ArrowRight: place + 1, ArrowLeft: place < 0 ? last : place - 1, Home: 0, End: last };
  if (!(key in moves)) return false;
  const value = all[Math.max(0, Math.min(last, moves[key]))];
  panTo(group, value);
  showCursor(group, value);
  return true;
}

function addCursor(chart) {
  const { svg, group } = chart;
  svg.setAttribute("role", "slider");
  for (const [name, value] of [["valuemin", 0], ["valuemax", 100], ["valuenow", 0], ["valuetext", chart.before]])
    svg.setAttribute(`aria-${name}`, value);
  svg.addEventListener("pointermove", (event) => showCursor(group, valueAt(chart, event)));
  svg.addEventListener("pointerleave", () => showCursor(group, null));
  svg.addEventListener("blur", () => showCursor(group, null));
  svg.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (moveCursor(chart, event.key) || zoomByKey(chart, event.key)) event.preventDefault();
  });
}
