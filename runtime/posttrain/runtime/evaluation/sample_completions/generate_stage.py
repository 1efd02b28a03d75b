"""Writes completions of a dataset's rows, or conversations about them, as rows of their own."""

from typing import Any

from posttrain.runtime.engines.engine_factory import generate_completions, open_engine
from posttrain.runtime.errors import StepError
from posttrain.runtime.evaluation.sample_completions.dialogue import run_conversations
from posttrain.runtime.evaluation.sample_completions.missing_completions import check_missing
from posttrain.runtime.evaluation.sample_completions.sample_selection import select_rows
from posttrain.runtime.evaluation.score_completions import completion_rows
from posttrain.runtime.rows_io import read_rows, write_rows
from posttrain.runtime.step_context import StepContext

Row = dict[str, Any]


def run_generate(context: StepContext) -> None:
    """The whole of a generate step."""
    rows = read_rows(context.inputs["data"], context.part("data"))
    if not rows:
        raise StepError("there are no rows to write for", "look at the dataset's steps")
    made = (
        _completions(context, rows)
        if context.params["dialogue"] is None
        else run_conversations(context, rows)
    )
    if not made:
        message = "nothing was kept of what was written"
        raise StepError(message, "look at the reward and at `keep`, or draw more samples")
    write_rows(context.out / "all.parquet", made)
    (context.out / "parts.txt").write_text("all\n", encoding="utf-8")
    context.facts["rows.all"] = len(made)


def _completions(context: StepContext, rows: list[Row]) -> list[Row]:
    from posttrain.runtime.prompts import build_prompts

    params = context.params
    (subject,) = params["models"]
    with open_engine(context, subject) as writer:
        prompts = build_prompts(context, writer, rows)
        context.events.emit("phase", name="generating")
        found = generate_completions(
            context, subject, writer, prompts, params["sampling"], seed=params["seed"]
        )
    every = [one for completions in found for one in completions]
    check_missing(context, [one.error or one.finish for one in every if one.text is None], len(every))
    there = [row for row in completion_rows(rows, found) if row["completion"] is not None]
    return select_rows(context, there)
