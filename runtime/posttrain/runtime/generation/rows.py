"""Writes completions of a dataset's rows, or conversations about them, as rows of their own."""

from typing import Any

from posttrain.runtime.context import Context
from posttrain.runtime.engines.opening import opened, written
from posttrain.runtime.evals.scoring import beside
from posttrain.runtime.faults import StepFault
from posttrain.runtime.generation.dialogue import conversations
from posttrain.runtime.generation.keeping import kept_rows
from posttrain.runtime.generation.losing import check_lost
from posttrain.runtime.products import read_rows, write_rows

Row = dict[str, Any]


def generate(context: Context) -> None:
    """The whole of a generate step."""
    rows = read_rows(context.inputs["data"], context.part("data"))
    if not rows:
        raise StepFault("there are no rows to write for", "look at the dataset's steps")
    made = _completions(context, rows) if context.params["dialogue"] is None else conversations(context, rows)
    if not made:
        message = "nothing was kept of what was written"
        raise StepFault(message, "look at the reward and at `keep`, or draw more samples")
    write_rows(context.out / "all.parquet", made)
    (context.out / "parts.txt").write_text("all\n", encoding="utf-8")
    context.facts["rows.all"] = len(made)


def _completions(context: Context, rows: list[Row]) -> list[Row]:
    from posttrain.runtime.prompts import prompts_of

    params = context.params
    (subject,) = params["subjects"]
    with opened(context, subject) as writer:
        prompts = prompts_of(context, writer, rows)
        context.events.emit("phase", name="generating")
        found = written(context, subject, writer, prompts, params["sampling"], seed=params["seed"])
    every = [one for completions in found for one in completions]
    check_lost(context, [one.error or one.finish for one in every if one.text is None], len(every))
    there = [row for row in beside(rows, found) if row["completion"] is not None]
    return kept_rows(context, there)
