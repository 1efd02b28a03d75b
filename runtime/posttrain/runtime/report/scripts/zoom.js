// Zooms all charts of a stage: by a drag across one of them, or by keys around its cursor.

const MIN_DRAG = 4;

function fullRange(group) {
  const ends = [...liveCharts(group)].map((chart) => stepRange(chart.curve));
  return [Math.min(...ends.map(([low]) => low)), Math.max(...ends.map(([, high]) => high))];
}

function zoomTo(group, from, to) {
  const [low, high] = fullRange(group);
  const range = [Math.max(low, from), Math.min(high, to)];
  if (!(range[1] > range[0])) return;
  group.range = range[0] <= low && range[1] >= high ? null : range;
  redrawGroup(group);
}

// From a point to a point, so that the end of a drag near a point includes it.
function snapRange(steps, from, to) {
  const [low, high] = [steps[nearest(steps, from)], steps[nearest(steps, to)]];
  return high > low ? [low, high] : [from, to];
}

function resetZoom(group) {
  group.range = null;
  redrawGroup(group);
}

// Moves the visible range to a step outside of it, and keeps its width where that is possible.
function panTo(group, step) {
  if (group.range === null) return;
  const [from, to] = group.range;
  if (step >= from && step <= to) return;
  const [low, high] = fullRange(group);
  const start = Math.max(low, Math.min(high - (to - from), step - (to - from) / 2));
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
  const [from, to] = group.range || fullRange(group);
  const middle = group.cursor === null ? (from + to) / 2 : group.cursor;
  const step = group.cursor;
  zoomTo(group, middle - (middle - from) * factor, middle + (to - middle) * factor);
  showCursor(group, step);
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
    start = { place: placeAt(chart, event), step: stepAt(chart, event) };
    showCursor(group, start.step);
  });
  svg.addEventListener("pointermove", (event) => {
    const wide = width(event);
    if (Math.abs(wide) < MIN_DRAG) return;
    svg.setPointerCapture(event.pointerId);
    selection.setAttribute("x", Math.min(start.place, start.place + wide));
    selection.setAttribute("width", Math.abs(wide));
  });
  svg.addEventListener("pointerup", (event) => {
    const [wide, from, to] = [width(event), start && start.step, stepAt(chart, event)];
    stop();
    if (Math.abs(wide) >= MIN_DRAG) zoomTo(group, ...snapRange(chart.curve.steps, Math.min(from, to), Math.max(from, to)));
  });
  svg.addEventListener("pointercancel", stop);
  svg.addEventListener("dblclick", () => resetZoom(group));
}
