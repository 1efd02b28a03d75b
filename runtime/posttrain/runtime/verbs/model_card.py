"""The model card of an export: its base model and training stages, from the records in the store.

The card is reproducible: it has no dates and no paths.
"""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posttrain.runtime.errors import StepError
from posttrain.runtime.plan_params import read_step, read_step_params
from posttrain.runtime.store.model_lineage import model_lineage
from posttrain.runtime.store.product_outline import STEP_FILE, product_folder
from posttrain.runtime.store.products import Product, Store
from posttrain.spec.declaration_fields import dump_declaration
from posttrain.spec.plan import Step
from posttrain.spec.step_params.artifact_params import ModelStepParams, ScriptStepParams
from posttrain.spec.step_params.step_parameters import StepParams
from posttrain.spec.step_params.train_params import TrainStepParams
from posttrain.spec.version import VERSION

CARD_FILE = "README.md"
_REPORTED_FACTS = ("steps", "parameters", "trained_parameters", "best")


def write_card(source: Path, out: Path) -> None:
    """Write the card of the product with the files in `source` to the folder of the exported files."""
    (out / CARD_FILE).write_text(render_card(product_lineage(product_folder(source))), encoding="utf-8")


@dataclass(frozen=True, kw_only=True)
class Origin:
    """A step that produced weights, with the facts of its product."""

    step: Step
    params: StepParams
    facts: Mapping[str, Any]


def product_lineage(folder: Path) -> list[Origin]:
    """The steps that produced the weights of the product in a folder, latest first."""
    return list(_lineage(folder))


def _lineage(folder: Path) -> Iterator[Origin]:
    store = Store(folder.parent)
    latest = store.find_manifest(folder.name)
    for _, product in () if latest is None else model_lineage(latest, store.find_manifest):
        if product is None or not (product.record / STEP_FILE).exists():
            return
        step = _read_record(product)
        yield Origin(step=step, params=read_step_params(step), facts=product.facts)


def _read_record(product: Product) -> Step:
    """The step that made a product. Manifests of earlier releases have no digest of it, by which a run would
    have found the damage."""
    try:
        return read_step(product.record / STEP_FILE)
    except StepError as error:
        advice = f"delete the folder {product.key} in the store and run again: the product is made again"
        raise StepError(f"the record of the product of `{product.manifest.step}`: {error}", advice) from None


def render_card(lineage: Sequence[Origin]) -> str:
    """Render a card as Markdown, with the front matter of the hub."""
    methods = [one.params.method for one in lineage if isinstance(one.params, TrainStepParams)]
    base = next((one.params.from_ for one in lineage if isinstance(one.params, ModelStepParams)), None)
    front = ["library_name: transformers", "pipeline_tag: text-generation"]
    front += [f"base_model: {base}"] if base else []
    front += [f"tags: {json.dumps(['posttrain', *dict.fromkeys(reversed(methods))])}"]
    name = lineage[0].step.id if lineage else "model"
    parts = ["---", *front, "---", "", f"# {name}", "", f"Made with posttrain {VERSION}.", ""]
    for origin in reversed(lineage):
        parts += _section(origin)
    return "\n".join(parts).rstrip() + "\n"


def _section(origin: Origin) -> list[str]:
    step, params, facts = origin.step, origin.params, origin.facts
    if isinstance(params, ModelStepParams):
        return [f"## {step.id}", "", f"Initialized from {_describe_weights(params)}.", ""]
    if isinstance(params, ScriptStepParams):
        inputs = ", ".join(f"`{source.reference}`" for source in step.inputs.values())
        made = f"Made by the program `{shlex.join(params.command)}`" + (f" from {inputs}." if inputs else ".")
        return [f"## {step.id}: script", "", made, ""]
    if not isinstance(params, TrainStepParams):
        return []
    rows = step.inputs["data"]
    data = ".".join(filter(None, (rows.step, rows.output))) + (f", part {rows.part}" if rows.part else "")
    parameters = {name: value for name, value in params.params.items() if value is not None}
    reported = {name: facts[name] for name in _REPORTED_FACTS if name in facts}
    return [
        f"## {step.id}: {params.method}",
        "",
        f"Trained on `{data}`" + (", with a reward graph." if params.reward else "."),
        "",
        "| parameter | value |",
        "|---|---|",
        *(f"| {name} | {json.dumps(value)} |" for name, value in sorted(parameters.items())),
        "",
        "| result | value |",
        "|---|---|",
        *(f"| {name} | {json.dumps(value, sort_keys=True)} |" for name, value in reported.items()),
        "",
    ]


def _describe_weights(params: ModelStepParams) -> str:
    if params.from_ is None:
        return f"random weights: `{json.dumps(dump_declaration(params.init))}`"
    revision = f" at revision {params.revision}" if params.revision else ""
    return f"`{params.from_}`{revision}"
