// Shows the values of all runs at the cursor of an overlaid chart.
"use strict";
(() => {
  const charts = JSON.parse(document.getElementById("overlay-data").textContent);

  function number(value) {
    const size = Math.abs(value);
    if (value !== 0 && (size < 1e-3 || size >= 1e5)) return value.toExponential(2);
    return String(Number(value.toPrecision(4)));
  }

  function nearest(steps, step) {
    let best = 0;
    steps.forEach((one, index) => {
      if (Math.abs(one - step) < Math.abs(steps[best] - step)) best = index;
    });
    return best;
  }

  function readable(svg) {
    const lines = charts[Number(svg.dataset.overlay)];
    const steps = [...new Set(lines.flatMap((line) => line.x))].sort((a, b) => a - b);
    const [low, high, start, end] = svg.dataset.x.split(" ").map(Number);
    const cursor = svg.querySelector(".cursor");
    const readout = svg.parentElement.querySelector(".readout");
    const before = readout.textContent;
    let place = -1;

    function show(index) {
      place = index;
      const step = steps[index];
      const x = start + ((step - low) / (high - low)) * (end - start);
      const line = cursor.querySelector("line");
      line.setAttribute("x1", x);
      line.setAttribute("x2", x);
      cursor.style.visibility = "visible";
      const values = lines
        .filter((one) => one.x.length && one.x[0] <= step && step <= one.x[one.x.length - 1])
        .map((one) => `${one.mark} ${number(one.y[nearest(one.x, step)])}`);
      readout.textContent = `step ${step}: ${values.join(", ")}`;
    }

    function leave() {
      place = -1;
      cursor.style.visibility = "hidden";
      readout.textContent = before;
    }

    function point(event) {
      const box = svg.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
      show(nearest(steps, low + ((x - start) / (end - start)) * (high - low)));
    }

    svg.addEventListener("pointermove", point);
    svg.addEventListener("pointerdown", point);
    svg.addEventListener("pointerleave", leave);
    svg.addEventListener("blur", leave);
    svg.addEventListener("keydown", (event) => {
      const last = steps.length - 1;
      const moves = { ArrowRight: place + 1, ArrowLeft: place < 0 ? last : place - 1, Home: 0, End: last };
      if (!(event.key in moves)) return;
      event.preventDefault();
      show(Math.min(last, Math.max(0, moves[event.key])));
    });
  }

  document.querySelectorAll("svg[data-overlay]").forEach(readable);
})();
