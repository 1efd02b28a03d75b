// Moves charts to the top of the curves, and remembers which. A placeholder marks where a chart came from.

const pins = new Set(readPins());

function pinsName() {
  return `posttrain.pinned ${document.title}`;
}

// A browser can refuse storage: pins then last as long as the page.
function readPins() {
  try {
    const found = JSON.parse(localStorage.getItem(pinsName()));
    return Array.isArray(found) ? found : [];
  } catch {
    return [];
  }
}

function storePins() {
  try {
    localStorage.setItem(pinsName(), JSON.stringify([...pins]));
  } catch {
    // The set above has them.
  }
}

function pinKey(chart) {
  return JSON.stringify([chart.group.key, chart.figure.dataset.metric]);
}

function pinArea() {
  const found = document.querySelector(".pinned");
  if (found) return found;
  const area = document.createElement("section");
  area.className = "card pinned";
  area.setAttribute("aria-label", "Pinned charts");
  const title = document.createElement("h3");
  title.textContent = "Pinned";
  const charts = document.createElement("div");
  charts.className = "charts";
  area.append(title, charts);
  document.querySelector(STAGE).before(area);
  return area;
}

function pin(chart) {
  const area = pinArea();
  const key = pinKey(chart);
  for (const other of area.querySelectorAll(".chart")) if (other.dataset.pin === key) other.remove();
  chart.placeholder = document.createElement("p");
  chart.placeholder.className = "soft placeholder";
  chart.placeholder.textContent = `${chart.title} is pinned above.`;
  chart.figure.replaceWith(chart.placeholder);
  chart.figure.dataset.pin = key;
  chart.stageName.hidden = false;
  area.querySelector(".charts").append(chart.figure);
  pins.add(key);
}

function unpin(chart) {
  const area = pinArea();
  pins.delete(pinKey(chart));
  delete chart.figure.dataset.pin;
  chart.stageName.hidden = true;
  if (chart.placeholder.isConnected) chart.placeholder.replaceWith(chart.figure);
  else chart.figure.remove();
  if (!area.querySelector(".chart")) area.remove();
}

function addPin(chart) {
  chart.stageName = document.createElement("span");
  chart.stageName.className = "soft stage-name";
  chart.stageName.textContent = chart.group.key;
  chart.stageName.hidden = true;
  chart.figure.querySelector("figcaption").prepend(chart.stageName);
  const button = makeButton("Pin", `Pin ${chart.title}`, () => {
    const pinned = pins.has(pinKey(chart));
    if (pinned) unpin(chart);
    else pin(chart);
    storePins();
    button.setAttribute("aria-pressed", !pinned);
    button.focus();
  });
  const pinned = pins.has(pinKey(chart));
  button.setAttribute("aria-pressed", pinned);
  if (pinned) pin(chart);
  return button;
}
