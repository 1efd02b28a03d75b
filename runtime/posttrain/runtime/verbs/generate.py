"""Writes completions of a dataset's rows as rows of their own."""

from typing import Any

from posttrain.runtime.context import Context
from posttrain.runtime.products import read_rows, write_rows
from posttrain.spec.extension import Verb

EXTENSION = Verb(
    name="generate",
    summary="The rows with completions beside them.",
    stack=("torch", "transformers", "tokenizers"),
    heavy=("torch", "transformers.modeling_utils", "transformers.generation.utils", "pyarrow.parquet"),
)


def run(context: Context) -> None:
    from posttrain.runtime.engines.transformers import generate
    from posttrain.runtime.models.load import load_model, load_tokenizer
    from posttrain.runtime.prompts import rendered

    params, folder = context.params, context.inputs["model"]
    rows = read_rows(context.inputs["data"], context.part("data"))
    tokenizer = load_tokenizer(folder)
    found = generate(
        load_model(folder),
        tokenizer,
        rendered(context, tokenizer, rows),
        params["sampling"],
        params["seed"],
        lambda done, total: context.events.progress(done, total, "rows"),
    )
    written: list[dict[str, Any]] = []
    for row, completions in zip(rows, found, strict=True):
        kept = [{**row, "completion": one.text, "finish": one.finish} for one in completions]
        written += _best(kept, params["reward"]) if params["keep"] == "best" else kept
    write_rows(context.out / "all.parquet", written)
    (context.out / "parts.txt").write_text("all\n", encoding="utf-8")
    context.facts["rows.all"] = len(written)


def _best(rows: list[dict[str, Any]], reward: dict[str, Any]) -> list[dict[str, Any]]:
    """The row whose completion scores highest; none when none has a score."""
    from posttrain.runtime.rewards.graph import Graph

    graph = Graph.from_plan(reward)
    given = {name: [row[name] for row in rows] for name in ("completion", *graph.columns)}
    scores = graph.evaluate(given)[graph.returns]
    scored = [(score, -index) for index, score in enumerate(scores) if score is not None]
    return [rows[-max(scored)[1]]] if scored else []
