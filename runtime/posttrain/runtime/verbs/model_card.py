"""The model card of an export: its base model and training stages, from the records in the store.

The card is reproducible: it has no dates and no paths.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.store.products import Product, Store
from posttrain.spec.version import VERSION

CARD_FILE = "README.md"
_REPORTED_FACTS = ("steps", "parameters", "trained_parameters", "best")


def write_card(source: Path, out: Path) -> None:
    """Write the card of the product with the files in `source` to the folder of the exported files."""
    lineage = list(_lineage(source.parent))
    (out / CARD_FILE).write_text(render_card(lineage), encoding="utf-8")


def _lineage(folder: Path) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Yield the steps that produced the weights, latest first, with the facts of their products."""
    store = Store(folder.parent)
    key: str | None = folder.name
    while key is not None:
        product: Product | None = store.find_manifest(key)
        step: Any = atomic_io.read_json(store.root / key / "record" / "step.json")
        if product is None or not isinstance(step, dict):
            return
        yield step, product.facts
        parent = step["key_values"].get("input.model")
        key = parent["key"] if parent else None


def render_card(lineage: list[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> str:
    """Render a card as Markdown, with the front matter of the hub."""
    methods = [step["params"]["method"] for step, _ in lineage if step["kind"] == "train"]
    base = next((step["params"].get("from") for step, _ in lineage if step["kind"] == "model"), None)
    front = ["library_name: transformers", "pipeline_tag: text-generation"]
    front += [f"base_model: {base}"] if base else []
    front += [f"tags: {json.dumps(['posttrain', *dict.fromkeys(reversed(methods))])}"]
    name = lineage[0][0]["id"] if lineage else "model"
    parts = ["---", *front, "---", "", f"# {name}", "", f"Made with posttrain {VERSION}.", ""]
    for step, facts in reversed(lineage):
        parts += _section(step, facts)
    return "\n".join(parts).rstrip() + "\n"


def _section(step: Mapping[str, Any], facts: Mapping[str, Any]) -> list[str]:
    params = step["params"]
    if step["kind"] == "model":
        origin = params.get("from")
        revision = f" at revision {params['revision']}" if params.get("revision") else ""
        weights = f"`{origin}`{revision}" if origin else f"random weights: `{json.dumps(params.get('init'))}`"
        return [f"## {step['id']}", "", f"Initialized from {weights}.", ""]
    if step["kind"] != "train":
        return []
    rows = step["inputs"].get("data", {})
    data = rows.get("step", "") + (f", part {rows['part']}" if rows.get("part") else "")
    parameters = {name: value for name, value in params["params"].items() if value is not None}
    reported = {name: facts[name] for name in _REPORTED_FACTS if name in facts}
    return [
        f"## {step['id']}: {params['method']}",
        "",
        f"Trained on `{data}`" + (", with a reward graph." if params.get("reward") else "."),
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
