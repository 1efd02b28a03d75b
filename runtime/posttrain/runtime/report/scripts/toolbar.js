// The controls of a stage (x axis, smoothing, zoom) and of each chart (log axis, pin, export).

const AXES = { steps: "step", tokens: "tokens", seconds: "time" };
const SMOOTHING = { 0: "none", 50: "2 %", 25: "4 %", 12: "8 %", 6: "17 %", 3: "33 %" };

function makeButton(text, label, action) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = text;
  button.setAttribute("aria-label", label);
  button.title = label;
  button.addEventListener("click", action);
  return button;
}

function makeSelect(words, options, value, change) {
  const label = document.createElement("label");
  const select = document.createElement("select");
  select.append(...options.map(([key, text]) => new Option(text, key)));
  select.value = value;
  select.addEventListener("change", () => change(select.value));
  label.append(`${words} `, select);
  return label;
}

function addChartTools(chart) {
  const { figure, group, title } = chart;
  const metric = figure.dataset.metric;
  const log = makeButton("Log", `Log axis of ${title}`, () => {
    chart.log = !chart.log;
    if (chart.log) group.logs.add(metric);
    else group.logs.delete(metric);
    log.setAttribute("aria-pressed", chart.log);
    redraw(chart);
  });
  log.setAttribute("aria-pressed", chart.log);
  if (!("positive" in figure.dataset)) {
    log.disabled = true;
    log.title = "A log axis needs positive values";
  }
  const csv = makeButton("CSV", `CSV of ${title}`, () => save(fileName(chart, "csv"), "text/csv", csvText(chart)));
  const svg = makeButton("SVG", `SVG of ${title}`, () => save(fileName(chart, "svg"), "image/svg+xml", svgText(chart)));
  const tools = document.createElement("div");
  tools.className = "tools";
  chart.readout.after(tools);
  tools.append(log, csv, svg);
  log.after(addPin(chart));
}

function addStageTools(stage) {
  const charts = stage.querySelector(":scope > .marking, :scope > .charts");
  if (!charts || stage.querySelector(":scope > .stage-tools")) return;
  const group = groupOf(stage);
  const tools = document.createElement("div");
  tools.className = "tools stage-tools";
  tools.setAttribute("role", "group");
  tools.setAttribute("aria-label", `Charts of ${group.key}`);
  if (group.axes.length > 1)
    tools.append(
      makeSelect("X axis", group.axes.map((axis) => [axis, AXES[axis]]), group.axis, (axis) => {
        group.axis = axis;
        redrawGroup(group);
      }),
    );
  if (stage.querySelector(".smoothing"))
    tools.append(
      makeSelect("Smoothing", Object.entries(SMOOTHING).sort((a, b) => (Number(b[0]) || 99) - (Number(a[0]) || 99)), group.parts, (parts) => {
        group.parts = Number(parts);
        redrawGroup(group);
      }),
    );
  const reset = makeButton("Reset zoom", "Reset zoom", () => resetZoom(group));
  reset.className = "reset";
  const hint = document.createElement("span");
  hint.className = "soft";
  hint.textContent = "Drag across a chart to zoom. Keys: arrows read values, + and \u2212 zoom, 0 resets.";
  tools.append(reset, hint);
  charts.before(tools);
  updateStageTools(group);
}

function updateStageTools(group) {
  for (const stage of document.querySelectorAll(STAGE)) {
    if (stage.dataset.stage !== group.key) continue;
    const reset = stage.querySelector(":scope > .stage-tools .reset");
    if (reset) reset.disabled = group.range === null;
    const words = stage.querySelector(":scope > .marking > .smoothing");
    if (words) words.textContent = smoothingText(words, group.parts);
  }
}

function smoothingText(element, parts) {
  element.dataset.usual ??= element.textContent;
  if (parts === USUAL_PARTS) return element.dataset.usual;
  if (!parts) return "The line: the values.";
  return element.dataset.usual.replace("a twelfth of the curve", `${SMOOTHING[parts]} of the curve`);
}
