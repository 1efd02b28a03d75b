// The cursor of a stage: every chart shows its value at the same step. A focused chart is a slider over its points.

function showCursor(group, step) {
  group.cursor = step;
  for (const chart of liveCharts(group)) {
    if (step === null) hideCursor(chart);
    else if (chart.svg.getClientRects().length) showPoint(chart, nearest(chart.curve.steps, step));
  }
}

function showPoint(chart, index) {
  const { curve, view } = chart;
  const x = view.across.to(view.place(curve.steps[index]));
  const inside = x >= AREA.left - 1 && x <= AREA.right + 1;
  chart.cursor.style.visibility = inside ? "visible" : "hidden";
  const [line, dot] = chart.cursor.children;
  line.setAttribute("x1", x);
  line.setAttribute("x2", x);
  dot.setAttribute("cx", x);
  dot.setAttribute("cy", view.up.to(curve.values[index]));
  chart.readout.textContent = pointText(chart, index);
  chart.svg.setAttribute("aria-valuemax", curve.steps.length - 1);
  chart.svg.setAttribute("aria-valuenow", index);
  chart.svg.setAttribute("aria-valuetext", chart.readout.textContent);
}

function hideCursor(chart) {
  chart.cursor.style.visibility = "hidden";
  chart.readout.textContent = chart.before;
}

function pointText(chart, index) {
  const { curve, view } = chart;
  const step = curve.steps[index];
  const smoothed = view.smoothed.length ? ` (smoothed ${numberText(view.smoothed[index])})` : "";
  const events = [
    [curve.checkpoints, "checkpoint"],
    [curve.evals, "evaluation"],
    [curve.resumed, "resumed"],
  ].filter(([steps]) => steps.includes(step));
  return [
    `step ${step}: ${numberText(curve.values[index])}${smoothed}`,
    ...(curve.tokens.length ? [`${countText(curve.tokens[index])} tokens`] : []),
    ...(curve.seconds.length ? [durationText(curve.seconds[index])] : []),
    ...events.map(([, words]) => words),
  ].join(" \u00b7 ");
}

// The step under the pointer.
function stepAt(chart, event) {
  const { curve, view } = chart;
  const value = view.across.from(placeAt(chart, event));
  return view.axis === "steps" ? value : interpolate(curve[view.axis], curve.steps, value);
}

// The horizontal position of the pointer in the coordinates of the drawing.
function placeAt(chart, event) {
  const box = chart.svg.getBoundingClientRect();
  const place = ((event.clientX - box.left) / box.width) * AREA.width;
  return Math.max(AREA.left, Math.min(AREA.right, place));
}

function moveCursor(chart, key) {
  const { curve, group } = chart;
  const last = curve.steps.length - 1;
  const place = group.cursor === null ? -1 : nearest(curve.steps, group.cursor);
  const moves = { ArrowRight: place + 1, ArrowLeft: place < 0 ? last : place - 1, Home: 0, End: last };
  if (!(key in moves)) return false;
  const step = curve.steps[Math.max(0, Math.min(last, moves[key]))];
  panTo(group, step);
  showCursor(group, step);
  return true;
}

function addCursor(chart) {
  const { svg, group } = chart;
  svg.setAttribute("role", "slider");
  for (const [name, value] of [["valuemin", 0], ["valuemax", 100], ["valuenow", 0], ["valuetext", chart.before]])
    svg.setAttribute(`aria-${name}`, value);
  svg.addEventListener("pointermove", (event) => showCursor(group, stepAt(chart, event)));
  svg.addEventListener("pointerleave", () => showCursor(group, null));
  svg.addEventListener("blur", () => showCursor(group, null));
  svg.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (moveCursor(chart, event.key) || zoomByKey(chart, event.key)) event.preventDefault();
  });
}
