"""Samples completions of a model on data, scores them by a reward graph, and gives the metrics.

completions.parquet    a row a completion: the data's columns, the text, every node's value
metrics.json           each metric with its interval and how many items it is made from
"""

from collections.abc import Mapping
from typing import Any

from posttrain.runtime import durable
from posttrain.runtime.context import Context
from posttrain.runtime.faults import StepFault
from posttrain.runtime.measures import measure
from posttrain.runtime.products import read_rows, write_rows
from posttrain.spec.extension import Verb

EXTENSION = Verb(
    name="eval",
    summary="Completions, scored, with metrics and their intervals.",
    stack=("torch", "transformers", "tokenizers"),
    heavy=("torch", "transformers.modeling_utils", "transformers.generation.utils", "pyarrow.parquet"),
)
_SHOWN = 40  # samples that the report gets


def run(context: Context) -> None:
    rows = read_rows(context.inputs["data"], context.part("data"))
    if not rows:
        raise StepFault("there are no rows to measure", "look at the dataset's steps")
    scored = _scored(context, rows)
    metrics = {
        name: measure(metric, scored, context.params["seed"])
        for name, metric in context.params["metrics"].items()
    }
    write_rows(context.out / "completions.parquet", scored)
    durable.write_json(context.out / "metrics.json", metrics)
    _report(context, scored, metrics)


def _scored(context: Context, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each completion, with every node's value under `node:NAME`."""
    from posttrain.runtime.engines.transformers import generate
    from posttrain.runtime.models.load import load_model, load_tokenizer
    from posttrain.runtime.prompts import rendered
    from posttrain.runtime.rewards.graph import Graph

    params, folder = context.params, context.inputs["model"]
    tokenizer = load_tokenizer(folder)
    prompts = rendered(context, tokenizer, rows)
    context.events.emit("phase", name="generating")
    found = generate(
        load_model(folder),
        tokenizer,
        prompts,
        params["sampling"],
        params["seed"],
        lambda done, total: context.events.progress(done, total, "rows"),
    )
    context.events.emit("phase", name="scoring")
    flat = [
        {**row, "item": item, "completion": one.text, "tokens": one.tokens, "finish": one.finish}
        for item, (row, completions) in enumerate(zip(rows, found, strict=True))
        for one in completions
    ]
    graph = Graph.of_step(context)
    given = {name: [row[name] for row in flat] for name in ("completion", *graph.columns)}
    items = [item for item, completions in enumerate(found) for _ in completions]
    scores = graph.evaluate(given, items)
    for index, row in enumerate(flat):
        row |= {f"node:{name}": column[index] for name, column in scores.values.items()}
        row |= {f"reason:{name}": column[index] for name, column in scores.reasons.items()}
    context.facts["nodes"] = graph.shown
    context.facts["returns"] = graph.returns
    return flat


def _report(context: Context, scored: list[dict[str, Any]], metrics: Mapping[str, Any]) -> None:
    nodes = context.facts["nodes"]
    for row in scored[:_SHOWN]:
        context.events.emit(
            "sample",
            step=0,
            prompt=_text(row.get("prompt")),
            completion=row["completion"],
            values={name: row[f"node:{name}"] for name in nodes},
        )
    cut = sum(row["finish"] == "length" for row in scored) / len(scored)
    unscored = sum(row[f"node:{context.facts['returns']}"] is None for row in scored) / len(scored)
    context.facts.update(metrics=metrics, cut=cut, unscored=unscored, completions=len(scored))
    if cut > 0.5:
        context.events.emit(
            "warning",
            message=f"{cut:.0%} of the completions were cut at their longest length",
            advice="raise sampling.max_tokens, or teach the model to end",
        )


def _text(prompt: Any) -> str:
    return prompt if isinstance(prompt, str) else "\n".join(turn["content"] for turn in prompt or ())
