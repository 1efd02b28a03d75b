// The points of a figure, in columns of the same length: steps, values, and tokens and seconds where they are known.

function readCurve(figure) {
  return JSON.parse(figure.querySelector(":scope > script").textContent);
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

function stepRange(curve) {
  const steps = curve.steps.concat(curve.nonfinite);
  const [low, high] = steps.reduce(([a, b], step) => [Math.min(a, step), Math.max(b, step)], [Infinity, -Infinity]);
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
function smoothedValues(curve, parts) {
  if (!parts || !curve.smoothed.length) return [];
  return parts === USUAL_PARTS ? curve.smoothed : movingAverage(curve.values, parts);
}
