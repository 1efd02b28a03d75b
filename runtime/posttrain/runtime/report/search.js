// Searches the completions without a card, and lists the first that fit the text and the filters.
"use strict";
(() => {
  const data = document.getElementById("search-data");
  const section = document.getElementById("more-results-section");
  if (!data || !section) return;
  const rows = JSON.parse(data.textContent);
  const texts = rows.map((row) => row.slice(4).join("\n").toLowerCase());
  const list = document.getElementById("more-results");
  const counted = document.getElementById("more-results-count");
  const search = document.getElementById("sample-text");
  const filters = ["stage", "outcome", "model"].map((name) => document.getElementById(`sample-${name}`));
  const most = 40;

  function line(name, text) {
    const found = document.createElement(name);
    found.textContent = text;
    return found;
  }

  function show(row) {
    const [stage, item, model, outcome, prompt, completion, reference] = row;
    const shown = document.createElement("li");
    shown.append(line("b", `${stage}, row ${item}`), ` ${[model, outcome].filter(Boolean).join(", ")}`);
    for (const text of [prompt, completion, reference]) if (text) shown.append(line("pre", text));
    return shown;
  }

  function update() {
    const query = search.value.trim().toLowerCase();
    const [stage, outcome, model] = filters;
    const chosen = stage.value ? stage.selectedOptions[0].textContent : "";
    const found = !query ? [] : rows.filter((row, index) =>
      (!chosen || row[0] === chosen) &&
      (!outcome || !outcome.value || row[3] === outcome.value) &&
      (!model || !model.value || row[2] === model.value) &&
      texts[index].includes(query));
    list.replaceChildren(...found.slice(0, most).map(show));
    counted.textContent = `${Math.min(found.length, most)} of ${found.length} shown`;
    section.hidden = !found.length;
  }

  search.addEventListener("input", update);
  for (const filter of filters) if (filter) filter.addEventListener("change", update);
})();
