// Draws a chart again, as line_chart.py drew it, for the axes and the range that its stage shows now.

const SVG = "http://www.w3.org/2000/svg";
const MAX_DOTS = 12;

function draw(name, attributes, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// The scales of a chart, and the indices of the points between its ends.
function chartView(chart) {
  const { curve, group } = chart;
  const axis = curve[group.axis].length ? group.axis : "steps";
  const [from, to] = group.range || stepRange(curve);
  let [low, high] = axis === "steps" ? [from, to] : [from, to].map((step) => interpolate(curve.steps, curve[axis], step));
  if (!(high > low)) [low, high] = [low - 1, high + 1];
  let [first, end] = [lowerBound(curve.steps, from), lowerBound(curve.steps, to)];
  if (curve.steps[end] <= to) end += 1;
  const smoothed = smoothedValues(curve, group.parts);
  const empty = end <= first;
  const seen = empty ? curve.values.concat(smoothed) : curve.values.slice(first, end).concat(smoothed.slice(first, end));
  const [bottom, top] = paddedRange(seen, chart.log);
  return {
    axis,
    from,
    to,
    first,
    end,
    smoothed,
    across: makeScale(low, high, AREA.left, AREA.right, false),
    up: makeScale(bottom, top, AREA.bottom, AREA.top, chart.log),
    place: (step) => (axis === "steps" ? step : interpolate(curve.steps, curve[axis], step)),
  };
}

function redraw(chart) {
  const view = (chart.view = chartView(chart));
  const { left, right, top, bottom, bleed } = AREA;
  const box = [left - bleed, top - bleed, right - left + 2 * bleed, bottom - top + bleed];
  const [x, y, width, height] = box;
  const inner = draw("svg", { x, y, width, height, viewBox: box.join(" "), "aria-hidden": "true" });
  inner.append(...drawMarkers(chart.curve, view), ...drawLines(chart.curve, view), ...drawNonfinite(chart.curve, view));
  chart.svg.querySelector(".drawn").replaceChildren(...drawGrid(chart, view), inner);
}

function drawGrid(chart, { axis, across, up }) {
  const { left, right, bottom } = AREA;
  const found = [];
  for (const value of chart.log ? logTicks(up.low, up.high) : ticks(up.low, up.high, 4)) {
    const y = up.to(value);
    found.push(draw("line", { x1: left, x2: right, y1: y, y2: y, class: "grid" }));
    found.push(draw("text", { x: left - 7, y: y + 3.5, "text-anchor": "end", class: "tick" }, tickText(value)));
  }
  for (const [value, text] of acrossTicks(axis, across)) {
    const x = across.to(value);
    found.push(draw("line", { x1: x, x2: x, y1: bottom, y2: bottom + 4, class: "axis" }));
    found.push(draw("text", { x, y: bottom + 17, "text-anchor": "middle", class: "tick" }, text));
  }
  found.push(draw("line", { x1: left, x2: right, y1: bottom, y2: bottom, class: "axis" }));
  return found;
}

function acrossTicks(axis, { low, high }) {
  if (axis === "seconds") return timeTicks(low, high).map((value) => [value, durationText(value, high - low)]);
  return ticks(low, high, axis === "steps" ? 5 : 4, true).map((value) => [value, countText(value)]);
}

function drawMarkers(curve, { from, to, across, place }) {
  const { top, bottom } = AREA;
  const at = (steps) => steps.filter((step) => from <= step && step <= to).map((step) => [step, across.to(place(step))]);
  const titled = (name, attributes, words) => {
    const element = draw(name, attributes);
    element.append(draw("title", {}, words));
    return element;
  };
  return [
    ...at(curve.evals).map(([step, x]) =>
      titled("path", { d: `M${x.toFixed(1)} ${bottom - 11}v5`, class: "evaluated" }, `evaluation at step ${step}`),
    ),
    ...at(curve.checkpoints).map(([step, x]) =>
      titled("path", { d: `M${x.toFixed(1)} ${bottom}l-3.5 -5h7z`, class: "checkpoint" }, `checkpoint at step ${step}`),
    ),
    ...at(curve.resumed).map(([step, x]) =>
      titled("line", { x1: x, x2: x, y1: top, y2: bottom, class: "resumed" }, `resumed from step ${step}`),
    ),
  ];
}

function drawLines(curve, view) {
  const { smoothed } = view;
  const found = [draw("path", { d: linePath(curve, curve.values, view), class: smoothed.length ? "raw" : "line" })];
  if (smoothed.length) found.push(draw("path", { d: linePath(curve, smoothed, view), class: "line" }));
  else if (view.end - view.first <= MAX_DOTS)
    for (let n = view.first; n < view.end; n += 1)
      found.push(
        draw("circle", {
          cx: view.across.to(view.place(curve.steps[n])),
          cy: view.up.to(curve.values[n]),
          r: 2.5,
          class: "dot",
        }),
      );
  return found;
}

// A line through the visible points and one on each side, with a gap at each non-finite value.
function linePath(curve, values, { first, end, across, up, axis }) {
  const column = curve[axis];
  let path = "";
  for (let n = Math.max(0, first - 1); n < Math.min(values.length, end + 1); n += 1) {
    const place = `${across.to(column[n]).toFixed(1)} ${up.to(values[n]).toFixed(1)}`;
    const gap = path && lowerBound(curve.nonfinite, curve.steps[n - 1]) < lowerBound(curve.nonfinite, curve.steps[n]);
    path += path && !gap ? `L${place}` : `M${place}h0`;
  }
  return path;
}

function drawNonfinite(curve, { from, to, across, place }) {
  return curve.nonfinite
    .filter((step) => from <= step && step <= to)
    .slice(0, 40)
    .map((step) => {
      const cross = draw("path", { d: `M${(across.to(place(step)) - 3).toFixed(1)} ${AREA.top}l6 6m-6 0l6 -6`, class: "lost" });
      cross.append(draw("title", {}, `non-finite value at step ${step}`));
      return cross;
    });
}
