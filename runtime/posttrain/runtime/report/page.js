// Shows the curve value at the cursor, filters the samples, and opens the step that a link targets.
"use strict";
(() => {
  const curves = JSON.parse(document.getElementById("curves-data").textContent);

  function number(value) {
    const size = Math.abs(value);
    if (value !== 0 && (size < 1e-3 || size >= 1e5)) return value.toExponential(2);
    return String(Number(value.toPrecision(4)));
  }

  function scale(text) {
    const [low, high, start, end] = text.split(" ").map(Number);
    return {
      to: (value) => start + ((value - low) / (high - low)) * (end - start),
      from: (place) => low + ((place - start) / (end - start)) * (high - low),
    };
  }

  function nearest(steps, step) {
    let low = 0;
    let high = steps.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (steps[middle] < step) low = middle + 1;
      else high = middle;
    }
    return low > 0 && step - steps[low - 1] < steps[low] - step ? low - 1 : low;
  }

  function readable(svg) {
    const curve = curves[Number(svg.dataset.chart)];
    const across = scale(svg.dataset.x);
    const up = scale(svg.dataset.y);
    const cursor = svg.querySelector(".cursor");
    const line = cursor.querySelector("line");
    const dot = cursor.querySelector("circle");
    const readout = svg.parentElement.querySelector(".readout");
    const before = readout.textContent;
    let place = -1;

    function show(index) {
      place = index;
      const smooth = curve.s.length ? curve.s[index] : null;
      const x = across.to(curve.x[index]);
      line.setAttribute("x1", x);
      line.setAttribute("x2", x);
      dot.setAttribute("cx", x);
      dot.setAttribute("cy", up.to(curve.y[index]));
      cursor.style.visibility = "visible";
      const smoothed = smooth === null ? "" : ` (smoothed ${number(smooth)})`;
      readout.textContent = `step ${curve.x[index]}: ${number(curve.y[index])}${smoothed}`;
    }

    function leave() {
      place = -1;
      cursor.style.visibility = "hidden";
      readout.textContent = before;
    }

    function point(event) {
      const box = svg.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
      show(nearest(curve.x, across.from(x)));
    }

    svg.addEventListener("pointermove", point);
    svg.addEventListener("pointerdown", point);
    svg.addEventListener("pointerleave", leave);
    svg.addEventListener("blur", leave);
    svg.addEventListener("keydown", (event) => {
      const last = curve.x.length - 1;
      const moves = {
        ArrowRight: place + 1,
        ArrowLeft: place < 0 ? last : place - 1,
        Home: 0,
        End: last,
      };
      if (!(event.key in moves)) return;
      event.preventDefault();
      show(Math.min(last, Math.max(0, moves[event.key])));
    });
  }

  function browse(root) {
    const controls = root.querySelector(".controls");
    const more = root.querySelector("#more-samples");
    const cards = [...root.querySelectorAll(".sample")];
    const texts = cards.map((card) => card.textContent.toLowerCase());
    const stage = root.querySelector("#sample-stage");
    const outcome = root.querySelector("#sample-outcome");
    const model = root.querySelector("#sample-model");
    const search = root.querySelector("#sample-text");
    const counted = root.querySelector("#sample-count");
    const page = 8;
    let room = page;

    function update() {
      const query = search.value.trim().toLowerCase();
      let found = 0;
      cards.forEach((card, index) => {
        const fits =
          (!stage.value || card.dataset.stage === stage.value) &&
          (!outcome || !outcome.value || card.dataset.outcome === outcome.value) &&
          (!model || !model.value || card.dataset.model === model.value) &&
          (!query || texts[index].includes(query));
        if (fits) found += 1;
        card.hidden = !fits || found > room;
      });
      counted.textContent = `${Math.min(found, room)} of ${found} shown`;
      more.hidden = found <= room;
    }

    function restart() {
      room = page;
      update();
    }

    stage.addEventListener("change", restart);
    if (outcome) outcome.addEventListener("change", restart);
    if (model) model.addEventListener("change", restart);
    search.addEventListener("input", restart);
    controls.addEventListener("submit", (event) => event.preventDefault());
    more.addEventListener("click", () => {
      room += 3 * page;
      update();
    });
    controls.hidden = false;
    update();
  }

  function unfold() {
    const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    if (target instanceof HTMLDetailsElement) {
      target.open = true;
      target.scrollIntoView();
    }
  }

  document.querySelectorAll("svg[data-chart]").forEach(readable);
  document.querySelectorAll("#browse").forEach(browse);
  window.addEventListener("hashchange", unfold);
  unfold();
})();
