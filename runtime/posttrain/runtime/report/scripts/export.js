// Saves a chart: its points as CSV, or the drawing as SVG with its colors in it and a legend of the runs.

const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "stroke-linecap", "opacity", "font", "visibility"];

function save(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function fileName(chart, extension) {
  const parts = [chart.group.key, chart.figure.dataset.metric].filter(Boolean).join("-");
  return `${parts.replace(/[^\p{L}\p{N}._-]+/gu, "_")}.${extension}`;
}

// All points of the page, also those outside the visible range. A non-finite value is an empty field.
function csvText(chart) {
  const rows = isOverlay(chart.data) ? runRecords(chart) : pointRecords(chart);
  return rows.map((row) => `${row.map(csvField).join(",")}\r\n`).join("");
}

function csvField(value) {
  return /[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
}

function pointRecords({ data, view }) {
  const line = data.lines[0];
  const { smoothed } = view.lines[0];
  const rows = line.steps.map((step, n) => [
    step,
    line.tokens[n] ?? "",
    line.seconds[n] ?? "",
    line.values[n],
    smoothed[n] ?? "",
  ]);
  for (const step of line.nonfinite) rows.push([step, "", "", "", ""]);
  return [["step", "tokens", "seconds", "value", "smoothed"], ...rows.sort((a, b) => a[0] - b[0])];
}

// A row for each step of any run, with a column for each run.
function runRecords({ data }) {
  const { lines } = data;
  const values = valuesByStep(lines, () => [0, Infinity]);
  for (const step of lines.flatMap((line) => line.nonfinite)) if (!values.has(step)) values.set(step, []);
  const rows = [...values].map(([step, row]) => [step, ...lines.map((_, n) => row[n] ?? "")]);
  return [["step", ...lines.map((line) => `${line.mark} ${line.name}`)], ...rows.sort((a, b) => a[0] - b[0])];
}

const [LEGEND_ROW, MAX_NAME] = [15, 40];

// Below the drawing: a piece of each line, with the mark and the name of its run.
function drawLegend(lines) {
  const legend = draw("g", {});
  lines.forEach((line, n) => {
    const y = AREA.height + LEGEND_ROW * n + 6;
    const name = line.name.length > MAX_NAME ? `${line.name.slice(0, MAX_NAME - 1)}\u2026` : line.name;
    legend.append(
      draw(
        "g",
        { class: line.color },
        draw("path", { d: `M${AREA.left} ${y}h20`, class: "line", ...(line.dash ? { "stroke-dasharray": line.dash } : {}) }),
        draw("text", { x: AREA.left + 26, y: y + 4, class: "tick" }, `${line.mark} ${name}`),
      ),
    );
  });
  return legend;
}

function svgText(chart) {
  if (!isOverlay(chart.data)) return standalone(chart, AREA.height);
  const { lines } = chart.data;
  const legend = drawLegend(lines);
  // In the page while it is copied: the style sheet gives it its colors.
  chart.svg.append(legend);
  const text = standalone(chart, AREA.height + LEGEND_ROW * lines.length);
  legend.remove();
  return text;
}

function standalone(chart, height) {
  const copy = chart.svg.cloneNode(true);
  const [from, to] = [chart.svg, copy].map((svg) => [svg, ...svg.querySelectorAll("*")]);
  to.forEach((element, n) => {
    const style = getComputedStyle(from[n]);
    for (const name of STYLES) element.style.setProperty(name, style.getPropertyValue(name));
    element.removeAttribute("class");
  });
  for (const name of copy.getAttributeNames())
    if (name.startsWith("aria-value") || name === "tabindex") copy.removeAttribute(name);
  copy.setAttribute("role", "img");
  // The page has room for the last tick beside the drawing, a file has not.
  const width = AREA.width + 8;
  copy.setAttribute("viewBox", `0 0 ${width} ${height}`);
  copy.setAttribute("width", 2 * width);
  copy.setAttribute("height", 2 * height);
  copy.style.background = getComputedStyle(document.documentElement).getPropertyValue("--card");
  copy.prepend(draw("title", {}, chart.svg.getAttribute("aria-label")));
  return new XMLSerializer().serializeToString(copy);
}
