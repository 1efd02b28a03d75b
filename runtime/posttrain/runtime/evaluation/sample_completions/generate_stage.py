"""Runs a generate stage: generates completions or conversations for the rows of a dataset."""

from typing import Any

from posttrain.runtime.engines.engine_factory import generate_completions, open_engine
from posttrain.runtime.errors import StepError
from posttrain.runtime.evaluation.sample_completions.dialogue import run_conversations
from posttrain.runtime.evaluation.sample_completions.missing_completions import check_missing
from posttrain.runtime.evaluation.sample_completions.sample_selection import select_rows
from posttrain.runtime.evaluation.score_completions import completion_rows
from posttrain.runtime.rows_io import read_rows, write_rows
from posttrain.runtime.step_context import StepContext
from posttrain.spec.step_params.artifact_params import GenerateStepParams

Row = dict[str, Any]


def run_generate(context: StepContext[GenerateStepParams]) -> None:
    """Run a generate step."""
    rows = read_rows(context.inputs["data"], context.part("data"))
    if not rows:
        raise StepError("the dataset has no rows to generate for", "check the dataset's steps")
    generated = (
        _completions(context, rows) if context.params.dialogue is None else run_conversations(context, rows)
    )
    if not generated:
        message = "no generated row passed the selection"
        raise StepError(message, "check the reward and `keep`, or generate more samples")
    write_rows(context.out / "all.parquet", generated)
    (context.out / "parts.txt").write_text("all\n", encoding="utf-8")
    context.facts["rows.all"] = len(generated)


def _completions(context: StepContext[GenerateStepParams], rows: list[Row]) -> list[Row]:
    from posttrain.runtime.prompts import build_prompts

    params = context.params
    (model_spec,) = params.models
    with open_engine(context, model_spec) as generator:
        prompts = build_prompts(context, generator, rows)
        context.events.emit("phase", name="generating")
        completions = generate_completions(
            context, model_spec, generator, prompts, params.sampling, seed=params.seed
        )
    flat = [completion for samples in completions for completion in samples]
    check_missing(context, [one.error or one.finish for one in flat if one.text is None], len(flat))
    present = [row for row in completion_rows(rows, completions) if row["completion"] is not None]
    return select_rows(context, present)
