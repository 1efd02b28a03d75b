"""The model card of a published product: its training, its recipe, and the evals and gates of its run.

The card has no times and no paths, so the same run has the same card.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from posttrain.runtime.errors import StepError
from posttrain.runtime.report.number_format import format_interval, format_number
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.integrity import DAMAGE_ADVICE
from posttrain.runtime.store.model_lineage import lineage_damage
from posttrain.runtime.store.products import Product
from posttrain.runtime.store.runs import read_plan, run_key
from posttrain.runtime.verbs.model_card import product_lineage, render_card

if TYPE_CHECKING:
    from posttrain.spec.plan import Plan, Step


def product_card(home: Home, run: Path, product: Product, recipe_digest: str | None) -> str:
    """The card of a product of a run. Raises StepError if a record that it shows is damaged."""
    damage = lineage_damage(product, home.store.find_manifest)
    if damage is not None:
        raise StepError(f"the product {damage.key[:10]} is damaged: {damage.reason}", DAMAGE_ADVICE)
    plan = read_plan(run)
    parts = [render_card(product_lineage(product.folder)).rstrip()]
    if recipe_digest is not None:
        parts.append(f"Recipe: `{recipe_digest}`, the key of the product: `{product.key}`.")
    data = list(_data_lines(plan))
    if data:
        parts.append("\n".join(["## Data", "", *data]))
    made = [(step, home.store.find_manifest(run_key(step, run.name))) for step in plan.steps]
    finished = [(step, found) for step, found in made if found is not None]
    evals = [line for step, found in finished for line in _eval_rows(step, found)]
    if evals:
        head = ["## Evaluation", "", "| eval | metric | value | interval |", "|---|---|---|---|"]
        parts.append("\n".join([*head, *evals]))
    gates = [line for step, found in finished for line in _gate_rows(step, found)]
    if gates:
        head = ["## Gates", "", "| gate | condition | verdict |", "|---|---|---|"]
        parts.append("\n".join([*head, *gates]))
    return "\n\n".join(parts) + "\n"


def _data_lines(plan: "Plan") -> Iterator[str]:
    """The sources of the datasets, with the digests of the user's files."""
    for step in plan.steps:
        if step.kind == "data":
            files = ", ".join(f"`{file.path}` (`{file.sha256[:12]}`)" for file in step.files.values())
            yield f"- `{step.id}`" + (f": {files}" if files else "")


def _eval_rows(step: "Step", product: Product) -> Iterator[str]:
    if step.kind not in ("eval", "benchmark"):
        return
    for name, metric in sorted(_mapping(product.facts.get("metrics")).items()):
        values = _mapping(metric)
        interval = format_interval(values.get("low"), values.get("high"))
        yield f"| {step.id} | {name} | {format_number(values.get('value'))} | {interval} |"


def _gate_rows(step: "Step", product: Product) -> Iterator[str]:
    if step.kind != "gate":
        return
    conditions = product.facts.get("conditions")
    for condition in cast(list[Any], conditions) if isinstance(conditions, list) else []:
        values = _mapping(condition)
        yield f"| {step.id} | {values.get('text')} | {values.get('verdict')} |"


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], value) if isinstance(value, dict) else {}
