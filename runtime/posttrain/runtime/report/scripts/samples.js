// Filters the samples, and shows the one that a link targets.

const SAMPLES_PAGE = 8;
// Outlives the elements, which a live page replaces: how many samples are shown, and the link that was followed.
const browsing = { room: SAMPLES_PAGE, hash: "", reveal: () => {} };

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

  function update() {
    const query = search.value.trim().toLowerCase();
    let found = 0;
    cards.forEach((card, index) => {
      const fits =
        (!stage.value || card.dataset.stage === stage.value) &&
        (!outcome || !outcome.value || card.dataset.outcome.split(" ").includes(outcome.value)) &&
        (!model || !model.value || card.dataset.model === model.value) &&
        (!query || texts[index].includes(query));
      if (fits) found += 1;
      card.hidden = !fits || found > browsing.room;
    });
    counted.textContent = `${Math.min(found, browsing.room)} of ${found} shown`;
    more.hidden = found <= browsing.room;
  }

  function restart() {
    browsing.room = SAMPLES_PAGE;
    update();
  }

  stage.addEventListener("change", restart);
  if (outcome) outcome.addEventListener("change", restart);
  if (model) model.addEventListener("change", restart);
  search.addEventListener("input", restart);
  controls.addEventListener("submit", (event) => event.preventDefault());
  more.addEventListener("click", () => {
    browsing.room += 3 * SAMPLES_PAGE;
    update();
  });
  // A link to a sample shows it, whatever the filters and the length of the list are.
  browsing.reveal = () => {
    const target = cards.find((card) => `#${card.id}` === location.hash);
    if (!target) return;
    for (const field of [stage, outcome, model, search]) if (field) field.value = "";
    browsing.room = Math.max(browsing.room, cards.indexOf(target) + 1);
    browsing.hash = location.hash;
    update();
    target.scrollIntoView();
  };

  controls.hidden = false;
  update();
  if (location.hash !== browsing.hash) browsing.reveal();
}
