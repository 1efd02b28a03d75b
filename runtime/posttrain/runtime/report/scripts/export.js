// Saves a chart: its points as CSV, or the drawing as SVG with its colors in it.

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
  const { curve } = chart;
  const { smoothed } = chart.view;
  const rows = curve.steps.map((step, n) => [
    step,
    curve.tokens[n] ?? "",
    curve.seconds[n] ?? "",
    curve.values[n],
    smoothed[n] ?? "",
  ]);
  for (const step of curve.nonfinite) rows.push([step, "", "", "", ""]);
  rows.sort((a, b) => a[0] - b[0]);
  return [["step", "tokens", "seconds", "value", "smoothed"], ...rows].map((row) => `${row.join(",")}\r\n`).join("");
}

function svgText(chart) {
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
  copy.setAttribute("width", 2 * AREA.width);
  copy.setAttribute("height", 2 * AREA.height);
  copy.style.background = getComputedStyle(document.documentElement).getPropertyValue("--card");
  copy.prepend(draw("title", {}, chart.svg.getAttribute("aria-label")));
  return new XMLSerializer().serializeToString(copy);
}
