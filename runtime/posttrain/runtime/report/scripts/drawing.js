// Draws a chart again, as line_chart.py drew it, for the axes and the range that its stage shows now.

const SVG = "http://www.w3.org/2000/svg";
const MAX_DOTS = 12;
const [MAX_CROSSES, MIN_CROSSES] = [40, 4];

function draw(name, attributes, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// The scales of a chart, and for each line the indices of the points between its ends.
function chartView(chart) {
  const { data, group } = chart;
  const { axis } = group;
  const [from, to] = visibleRange(group) || axisRange(data.lines, axis);
  const lines = data.lines.map((line) => lineView(line, axis, group.parts, from, to, isOverlay(data)));
  const seen = lines.flatMap(({ columns, first, end }) => columns.flatMap((column) => column.slice(first, end)));
  const [bottom, top] = paddedRange(seen.length ? seen : lines.flatMap(({ columns }) => columns.flat()), chart.log);
  return {
    axis,
    from,
    to,
    lines,
    across: makeScale(from, to, AREA.left, AREA.right, false),
    up: makeScale(bottom, top, AREA.bottom, AREA.top, chart.log),
  };
}

// What is drawn of a line, the main column last. The raw lines of several runs would cover each other.
function lineView(line, axis, parts, from, to, overlay) {
  const places = line[axis];
  const [first, after] = [lowerBound(places, from), lowerBound(places, to)];
  let end = after;
  while (places[end] <= to) end += 1;
  const smoothed = smoothedValues(line, parts);
  const raw = smoothed.length && overlay ? [] : [line.values];
  const place = (step) => (axis === "steps" ? step : interpolate(line.steps, places, step));
  return { places, first, end, smoothed, columns: smoothed.length ? [...raw, smoothed] : raw, place };
}

function redraw(chart) {
  const view = (chart.view = chartView(chart));
  const { data } = chart;
  const { left, right, top, bottom, bleed } = AREA;
  const box = [left - bleed, top - bleed, right - left + 2 * bleed, bottom - top + bleed];
  const [x, y, width, height] = box;
  const inner = draw("svg", { x, y, width, height, viewBox: box.join(" "), "aria-hidden": "true" });
  const most = Math.max(MIN_CROSSES, Math.floor(MAX_CROSSES / data.lines.length));
  inner.append(...drawMarkers(data, view), ...data.lines.map((line, n) => drawLine(line, view.lines[n], view, most)));
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

function drawMarkers(data, { from, to, across, lines }) {
  const { top, bottom } = AREA;
  const { steps } = data.lines[0];
  const known = (step) => lines[0].places === steps || (steps[0] <= step && step <= steps[steps.length - 1]);
  const at = (marked) =>
    marked
      .filter(known)
      .map((step) => [step, lines[0].place(step)])
      .filter(([, place]) => from <= place && place <= to)
      .map(([step, place]) => [step, across.to(place)]);
  const titled = (name, attributes, words) => {
    const element = draw(name, attributes);
    element.append(draw("title", {}, words));
    return element;
  };
  return [
    ...at(data.evals).map(([step, x]) =>
      titled("path", { d: `M${x.toFixed(1)} ${bottom - 11}v5`, class: "evaluated" }, `evaluation at step ${step}`),
    ),
    ...at(data.checkpoints).map(([step, x]) =>
      titled("path", { d: `M${x.toFixed(1)} ${bottom}l-3.5 -5h7z`, class: "checkpoint" }, `checkpoint at step ${step}`),
    ),
    ...at(data.resumed).map(([step, x]) =>
      titled("line", { x1: x, x2: x, y1: top, y2: bottom, class: "resumed" }, `resumed from step ${step}`),
    ),
  ];
}

function drawLine(line, one, view, crosses) {
  const { columns, places, smoothed, first, end } = one;
  const group = draw("g", line.color ? { class: line.color } : {});
  const dash = line.dash ? { "stroke-dasharray": line.dash } : {};
  for (const column of columns) {
    const main = column === columns[columns.length - 1];
    group.append(draw("path", { d: linePath(line, column, one, view), class: main ? "line" : "raw", ...dash }));
  }
  if (!smoothed.length && end - first <= MAX_DOTS)
    for (let n = first; n < end; n += 1)
      group.append(draw("circle", { cx: view.across.to(places[n]), cy: view.up.to(line.values[n]), r: 2.5, class: "dot" }));
  group.append(...drawNonfinite(line, one, view, crosses));
  return group;
}

// A line through the visible points and one on each side, with a gap at each non-finite value.
function linePath(line, values, { first, end, places }, { across, up }) {
  let path = "";
  for (let n = Math.max(0, first - 1); n < Math.min(values.length, end + 1); n += 1) {
    const place = `${across.to(places[n]).toFixed(1)} ${up.to(values[n]).toFixed(1)}`;
    const gap = path && lowerBound(line.nonfinite, line.steps[n - 1]) < lowerBound(line.nonfinite, line.steps[n]);
    path += path && !gap ? `L${place}` : `M${place}h0`;
  }
  return path;
}

// The other axes have no place for a run without any finite value.
function drawNonfinite(line, { place }, { from, to, across }, most) {
  const run = line.mark && `${line.mark}: `;
  return line.nonfinite
    .filter((step) => from <= place(step) && place(step) <= to)
    .slice(0, most)
    .map((step) => {
      const cross = draw("path", { d: `M${(across.to(place(step)) - 3).toFixed(1)} ${AREA.top}l6 6m-6 0l6 -6`, class: "lost" });
      cross.append(draw("title", {}, `${run}non-finite value at step ${step}`));
      return cross;
    });
}
