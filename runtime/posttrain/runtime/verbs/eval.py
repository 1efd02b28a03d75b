"""Samples completions of models on data, scores them by a reward graph, and gives the metrics."""

from posttrain.runtime.step_context import StepContext
from posttrain.spec.extension import Verb

EXTENSION = Verb(
    name="eval",
    summary="Completions, scored, with metrics and their intervals.",
    version=3,
    preload=("pyarrow.parquet",),  # what generates, an engine, has its own
)


def run(context: StepContext) -> None:
    from posttrain.runtime.evaluation.eval_stage import run_eval

    run_eval(context)
