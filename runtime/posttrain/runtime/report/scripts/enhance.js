// Adds interaction to a part of the page. A live page calls `posttrain.enhance` with each part that it inserts.

const enhanced = new WeakSet();

function within(root, selector) {
  const found = [...root.querySelectorAll(selector)];
  return root instanceof Element && root.matches(selector) ? [root, ...found] : found;
}

function addChart(figure) {
  const svg = figure.querySelector(":scope > svg");
  const readout = figure.querySelector(":scope > .readout");
  const title = figure.querySelector("figcaption .cut").textContent;
  const group = groupOf(figure);
  const log = group.logs.has(figure.dataset.metric);
  const chart = { figure, svg, readout, title, group, log, before: readout.textContent, cursor: svg.querySelector(".cursor") };
  let data = null;
  let view = null;
  // A page can have thousands of charts: the data of one are parsed when they are needed.
  Object.defineProperty(chart, "data", { get: () => (data ??= readData(figure)) });
  Object.defineProperty(chart, "view", { get: () => (view ??= chartView(chart)), set: (next) => (view = next) });
  group.charts.add(chart);
  addCursor(chart);
  addZoom(chart);
  addTable(chart);
  addChartTools(chart);
  return chart;
}

function enhance(root) {
  const fresh = (selector) => within(root, selector).filter((element) => !enhanced.has(element));
  for (const stage of fresh(STAGE)) {
    addStageTools(stage);
    enhanced.add(stage);
  }
  const charts = fresh(".chart[data-metric]").map((figure) => {
    enhanced.add(figure);
    return addChart(figure);
  });
  // Once the group has all of its charts: together they determine what is visible.
  for (const chart of charts) if (chart.log || isChanged(chart.group)) redraw(chart);
  for (const root of fresh("#browse")) {
    enhanced.add(root);
    browse(root);
  }
}

window.posttrain = Object.freeze({ enhance });
window.addEventListener("hashchange", () => {
  unfold();
  browsing.reveal();
});
enhance(document);
unfold();
