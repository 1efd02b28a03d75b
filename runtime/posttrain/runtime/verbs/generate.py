"""Writes completions of a dataset's rows, or conversations about them, as rows of their own."""

from posttrain.runtime.step_context import StepContext
from posttrain.spec.extension import Verb

EXTENSION = Verb(
    name="generate",
    summary="The rows with completions beside them, the best of them, pairs, or conversations.",
    version=2,
    preload=("pyarrow.parquet",),  # what generates, an engine, has its own
)


def run(context: StepContext) -> None:
    from posttrain.runtime.evaluation.sample_completions.generate_stage import run_generate

    run_generate(context)
