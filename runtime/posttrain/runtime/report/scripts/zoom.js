// Zooms all charts of a stage: by a drag across one of them, or by keys around its cursor.

const MIN_DRAG = 4;

function groupLines(group) {
  return [...liveCharts(group)].flatMap((chart) => chart.data.lines);
}

// The visible part of the x axis; null for all of it. The range stays that of the axis on which it was chosen.
function visibleRange(group) {
  const { range, axis } = group;
  if (range === null) return null;
  return range.axis === axis ? [range.from, range.to] : convertRange(group, range);
}

// The part of the axis in which the runs were between the ends of a range of another axis.
function convertRange(group, { axis, from, to }) {
  const longest = new Map();
  for (const line of groupLines(group))
    if (line.steps.length > (longest.get(line.mark)?.steps.length ?? 0)) longest.set(line.mark, line);
  const all = [...longest.values()];
  const within = all.filter((line) => line[axis][0] <= to && line[axis][line[axis].length - 1] >= from);
  const ends = (within.length ? within : all).map((line) =>
    [from, to].map((value) => interpolate(line[axis], line[group.axis], value)),
  );
  const [low, high] = [Math.min(...ends.map(([a]) => a)), Math.max(...ends.map(([, b]) => b))];
  return high > low ? [low, high] : [low - 1, high + 1];
}

function zoomTo(group, from, to) {
  const [low, high] = axisRange(groupLines(group), group.axis);
  [from, to] = [Math.max(low, from), Math.min(high, to)];
  if (!(to > from)) return;
  group.range = from <= low && to >= high ? null : { axis: group.axis, from, to };
  redrawGroup(group);
}

// From a point to a point, so that the end of a drag near a point includes it.
function snapRange(places, from, to) {
  const [low, high] = [places[nearest(places, from)], places[nearest(places, to)]];
  return high > low ? [low, high] : [from, to];
}

function resetZoom(group) {
  group.range = null;
  redrawGroup(group);
}

// Moves the visible range to a place outside of it, and keeps its width where that is possible.
function panTo(group, value) {
  if (group.range === null) return;
  const [from, to] = visibleRange(group);
  if (value >= from && value <= to) return;
  const [low, high] = axisRange(groupLines(group), group.axis);
  const start = Math.max(low, Math.min(high - (to - from), value - (to - from) / 2));
  zoomTo(group, start, start + to - from);
}

function zoomByKey(chart, key) {
  const { group } = chart;
  if (key === "0" || key === "Escape") {
    if (group.range === null) return false;
    resetZoom(group);
    return true;
  }
  const factor = { "+": 0.5, "=": 0.5, "-": 2 }[key];
  if (!factor) return false;
  const [from, to] = visibleRange(group) || axisRange(groupLines(group), group.axis);
  const { cursor } = group;
  const middle = cursor === null ? (from + to) / 2 : cursor;
  zoomTo(group, middle - (middle - from) * factor, middle + (to - middle) * factor);
  showCursor(group, cursor);
  return true;
}

function addZoom(chart) {
  const { svg, group } = chart;
  const selection = draw("rect", { class: "selection", y: AREA.top, height: AREA.bottom - AREA.top, width: 0 });
  let start = null;
  svg.prepend(selection);

  function width(event) {
    return start === null ? 0 : placeAt(chart, event) - start.place;
  }

  function stop() {
    start = null;
    selection.setAttribute("width", 0);
  }

  svg.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    start = { place: placeAt(chart, event), value: valueAt(chart, event) };
    showCursor(group, start.value);
  });
  svg.addEventListener("pointermove", (event) => {
    const wide = width(event);
    if (Math.abs(wide) < MIN_DRAG) return;
    svg.setPointerCapture(event.pointerId);
    selection.setAttribute("x", Math.min(start.place, start.place + wide));
    selection.setAttribute("width", Math.abs(wide));
  });
  svg.addEventListener("pointerup", (event) => {
    const [wide, from, to] = [width(event), start && start.value, valueAt(chart, event)];
    stop();
    if (Math.abs(wide) >= MIN_DRAG) zoomTo(group, ...snapRange(stops(chart), Math.min(from, to), Math.max(from, to)));
  });
  svg.addEventListener("pointercancel", stop);
  svg.addEventListener("dblclick", () => resetZoom(group));
}
