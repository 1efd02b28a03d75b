// Fills the table of a chart with the visible points, once it is open.

function fillTable(chart) {
  const details = chart.figure.querySelector(":scope > .values");
  if (!details.open) return;
  const { curve, view } = chart;
  const columns = [
    [curve.values, numberText],
    ...(curve.smoothed.length ? [[view.smoothed, numberText]] : []),
    ...(curve.tokens.length ? [[curve.tokens, (count) => Math.round(count).toLocaleString("en")]] : []),
    ...(curve.seconds.length ? [[curve.seconds, (seconds) => durationText(seconds)]] : []),
  ];
  const rows = [];
  for (let n = view.first; n < view.end; n += 1) {
    const head = cell("th", String(curve.steps[n]));
    head.scope = "row";
    const row = document.createElement("tr");
    row.append(head, ...columns.map(([column, text]) => cell("td", n in column ? text(column[n]) : "\u2013")));
    rows.push(row);
  }
  details.querySelector("tbody").replaceChildren(...rows);
  const count = `${rows.length.toLocaleString("en")} of ${curve.total.toLocaleString("en")}`;
  details.querySelector("caption").textContent = `${count} value${curve.total === 1 ? "" : "s"}`;
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
