// Fills the table of a chart with the visible points, once it is open.

function fillTable(chart) {
  const details = chart.figure.querySelector(":scope > .values");
  if (!details.open) return;
  const [rows, total, word] = isOverlay(chart.data) ? runRows(chart) : pointRows(chart);
  details.querySelector("tbody").replaceChildren(
    ...rows.map(([step, ...texts]) => {
      const head = cell("th", String(step));
      head.scope = "row";
      const row = document.createElement("tr");
      row.append(head, ...texts.map((text) => cell("td", text)));
      return row;
    }),
  );
  const count = `${rows.length.toLocaleString("en")} of ${total.toLocaleString("en")}`;
  details.querySelector("caption").textContent = `${count} ${word}${total === 1 ? "" : "s"}`;
}

// The points of a run, with all that is known of each.
function pointRows({ data, view }) {
  const line = data.lines[0];
  const { smoothed, first, end } = view.lines[0];
  const columns = [
    [line.values, numberText],
    ...(line.smoothed.length ? [[smoothed, numberText]] : []),
    ...(line.tokens.length ? [[line.tokens, (count) => Math.round(count).toLocaleString("en")]] : []),
    ...(line.seconds.length ? [[line.seconds, (seconds) => durationText(seconds)]] : []),
  ];
  const rows = [];
  for (let n = first; n < end; n += 1)
    rows.push([line.steps[n], ...columns.map(([column, text]) => (n in column ? text(column[n]) : "\u2013"))]);
  return [rows, line.total, "value"];
}

// The value of each run at the steps of all of them.
function runRows({ data, view }) {
  const { lines } = data;
  const values = valuesByStep(lines, (n) => [view.lines[n].first, view.lines[n].end]);
  const rows = [...values].sort((a, b) => a[0] - b[0]);
  const text = (value) => (value === undefined ? "\u2013" : numberText(value));
  const total = new Set(lines.flatMap((line) => line.steps)).size;
  return [rows.map(([step, row]) => [step, ...lines.map((_, n) => text(row[n]))]), total, "step"];
}

// The values of several lines by step, each from an index up to another one.
function valuesByStep(lines, ends) {
  const found = new Map();
  lines.forEach((line, n) => {
    const [first, end] = ends(n);
    for (let place = first; place < Math.min(end, line.steps.length); place += 1) {
      const step = line.steps[place];
      if (!found.has(step)) found.set(step, []);
      found.get(step)[n] = line.values[place];
    }
  });
  return found;
}

function cell(name, text) {
  const element = document.createElement(name);
  element.className = "number";
  element.textContent = text;
  return element;
}

function addTable(chart) {
  chart.figure.querySelector(":scope > .values").addEventListener("toggle", () => fillTable(chart));
}
