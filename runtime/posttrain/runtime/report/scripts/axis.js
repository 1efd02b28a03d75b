// Axes: map values to positions, and find ticks at round numbers, as axis_scale.py does.

const AREA = { left: 46, right: 350, top: 10, bottom: 158, width: 360, height: 184, bleed: 3 };
const MAX_VALUE = 1e300;

function makeScale(low, high, start, end, log) {
  const into = log ? Math.log10 : (value) => value;
  const back = log ? (value) => 10 ** value : (value) => value;
  const [from, to] = [into(low), into(high)];
  return {
    low,
    high,
    to: (value) => start + ((into(value) - from) / (to - from)) * (end - start),
    from: (place) => back(from + ((place - start) / (end - start)) * (to - from)),
  };
}

function paddedRange(values, log) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (low > high) [low, high] = [0, 1];
  low = Math.max(-MAX_VALUE, Math.min(MAX_VALUE, low));
  high = Math.max(-MAX_VALUE, Math.min(MAX_VALUE, high));
  if (log) {
    const room = 10 ** (Math.log10(high / low) * 0.06 || 0.1);
    return [low / room, high * room];
  }
  const room = (high - low) * 0.06 || Math.abs(high) * 0.06 || 1;
  return [low - room, high + room];
}

function ticks(low, high, count, whole) {
  if (!(high > low) || !Number.isFinite(high - low)) return [];
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const off = (distance) => Math.abs(Math.log(distance / rough));
  let distance = [1, 2, 5, 10].map((m) => power * m).sort((a, b) => off(a) - off(b))[0];
  if (whole) distance = Math.max(1, distance);
  const first = Math.ceil(low / distance - 1e-9);
  const last = Math.floor(high / distance + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, n) =>
    Number(((first + n) * distance).toPrecision(12)),
  );
}

// Powers of ten; with 2 and 5 times a power, or round numbers, where an axis has too few of them.
function logTicks(low, high) {
  const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const apart = Math.max(1, Math.round((last - first) / 6));
  const found = (multiples) => {
    const all = [];
    for (let power = first; power <= last; power += apart)
      for (const multiple of multiples) all.push(Number((multiple * 10 ** power).toPrecision(12)));
    return all.filter((value) => low <= value && value <= high);
  };
  if (found([1]).length >= 3) return found([1]);
  return found([1, 2, 5]).length >= 2 ? found([1, 2, 5]) : ticks(low, high, 4);
}

// Round numbers of seconds, minutes, hours or days.
function timeTicks(low, high) {
  const unit = [86400, 3600, 60, 1].find((one) => high - low >= 2 * one) || 1;
  return ticks(low / unit, high / unit, 4).map((value) => value * unit);
}

function tickText(value) {
  const size = Math.abs(value);
  if (value === 0 || (size >= 1e-3 && size < 1e5)) return String(Number(value.toPrecision(5)));
  const [mantissa, exponent] = value.toExponential(2).split("e");
  return `${Number(mantissa)}e${Number(exponent)}`;
}

// A count in a few characters: 950, 12k, 3.4M.
function countText(value) {
  for (const [size, unit] of [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e4, "k"]])
    if (Math.abs(value) >= size) return Number((value / (unit === "k" ? 1e3 : size)).toPrecision(4)) + unit;
  return String(Number(value.toPrecision(6)));
}

function durationText(seconds, longest = seconds) {
  const [size, unit] = [[86400, "d"], [3600, "h"], [60, "min"]].find(([one]) => longest >= 2 * one) || [1, "s"];
  return `${Number((seconds / size).toPrecision(3))} ${unit}`;
}

function numberText(value) {
  const size = Math.abs(value);
  if (value !== 0 && (size < 1e-3 || size >= 1e5)) return value.toExponential(2);
  return String(Number(value.toPrecision(4)));
}
