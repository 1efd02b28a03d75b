// The lines of a figure. Each has points, in columns of the same length: steps, values, and tokens and seconds where
// they are known.

function readData(figure) {
  return JSON.parse(figure.querySelector(":scope > script").textContent);
}

// Whether the chart is that of a comparison: its lines have the marks of their runs.
function isOverlay(data) {
  return data.lines[0].mark !== "";
}

// The places on an axis at which a line has a point, in order.
function stops(chart) {
  const { axis } = chart.group;
  chart.stops ??= {};
  return (chart.stops[axis] ??= [...new Set(chart.data.lines.flatMap((line) => line[axis]))].sort((a, b) => a - b));
}

// The index of the value of a rising column that is nearest to another.
function nearest(column, value) {
  const high = lowerBound(column, value);
  if (high === 0) return 0;
  if (high === column.length) return high - 1;
  return value - column[high - 1] < column[high] - value ? high - 1 : high;
}

// The index of the first value that is not below another.
function lowerBound(column, value) {
  let [low, high] = [0, column.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (column[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The value of one column where another, rising one has a value between its points.
function interpolate(from, to, value) {
  const after = lowerBound(from, value);
  if (after === 0) return to[0];
  if (after === from.length) return to[after - 1];
  const share = (value - from[after - 1]) / (from[after] - from[after - 1]);
  return to[after - 1] + share * (to[after] - to[after - 1]);
}

// The ends of an axis: every value, finite or not, is between them.
function axisRange(lines, axis) {
  let [low, high] = [Infinity, -Infinity];
  for (const line of lines)
    for (const column of axis === "steps" ? [line.steps, line.nonfinite] : [line[axis]])
      for (const value of column) [low, high] = [Math.min(low, value), Math.max(high, value)];
  return high > low ? [low, high] : [low - 1, high + 1];
}

// The mean over a window of one part of the curve around each value, as curve_data.py does: symmetric and shorter
// at the start, truncated at the end.
function movingAverage(values, parts) {
  const reach = Math.max(2, Math.floor(values.length / (2 * parts)));
  const sums = [0];
  for (const value of values) sums.push(sums[sums.length - 1] + value);
  return values.map((_, place) => {
    const before = Math.min(reach, place);
    const after = Math.min(before, values.length - 1 - place);
    return (sums[place + after + 1] - sums[place - before]) / (before + after + 1);
  });
}

const USUAL_PARTS = 12;

// The smoothed line: empty without one. That of the usual window comes with the page, from all values of the run.
function smoothedValues(line, parts) {
  if (!parts || !line.smoothed.length) return [];
  return parts === USUAL_PARTS ? line.smoothed : movingAverage(line.values, parts);
}
