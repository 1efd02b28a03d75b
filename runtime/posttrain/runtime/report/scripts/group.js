// What the charts of a stage share: the x axis, its visible part, the smoothing and the cursor. It outlives the
// elements: a live page replaces them, and the new ones are shown as the old ones were.

// The part of the page with the charts of a stage.
const STAGE = ".stage[data-stage]";
const groups = new Map();

function groupOf(element) {
  const stage = element.closest(STAGE);
  const key = stage ? stage.dataset.stage : "";
  if (!groups.has(key))
    groups.set(key, { key, axes: [], axis: "steps", range: null, parts: USUAL_PARTS, cursor: null, charts: new Set(), logs: new Set() });
  const group = groups.get(key);
  group.axes = stage ? stage.dataset.axes.split(" ") : ["steps"];
  return group;
}

function liveCharts(group) {
  for (const chart of group.charts) if (!chart.figure.isConnected) group.charts.delete(chart);
  return group.charts;
}

function isChanged(group) {
  return group.axis !== "steps" || group.range !== null || group.parts !== USUAL_PARTS;
}

function redrawGroup(group) {
  for (const chart of liveCharts(group)) redraw(chart);
  showCursor(group, null);
  updateStageTools(group);
  for (const chart of group.charts) fillTable(chart);
}
