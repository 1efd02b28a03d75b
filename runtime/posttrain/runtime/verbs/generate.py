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
    groups = [
        [{**row, "completion": one.text, "finish": one.finish} for one in completions]
        for row, completions in zip(rows, found, strict=True)
    ]
    written = _best(groups, context) if params["keep"] == "best" else [row for rows in groups for row in rows]
    write_rows(context.out / "all.parquet", written)
    (context.out / "parts.txt").write_text("all\n", encoding="utf-8")
    context.facts["rows.all"] = len(written)


def _best(groups: list[list[dict[str, Any]]], context: Context) -> list[dict[str, Any]]:
    """The row of each group whose completion scores highest; none where none has a score."""
    from posttrain.runtime.rewards.graph import Graph

    graph = Graph.of_step(context)
    rows = [(number, row) for number, group in enumerate(groups) for row in group]
    given = {name: [row[name] for _, row in rows] for name in ("completion", *graph.columns)}
    scores = graph.evaluate(given, [number for number, _ in rows]).values[graph.returns]
    best: dict[int, tuple[float, int]] = {}
    for place, ((number, _), score) in enumerate(zip(rows, scores, strict=True)):
        if score is not None and (number not in best or score > best[number][0]):
            best[number] = (score, place)
    return [rows[place][1] for _, place in best.values()]
