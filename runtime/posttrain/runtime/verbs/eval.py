"""Samples completions of models on data, scores them by a reward graph, and gives the metrics."""

from posttrain.runtime.context import Context
from posttrain.spec.extension import Verb

EXTENSION = Verb(
    name="eval",
    summary="Completions, scored, with metrics and their intervals.",
    version=3,
    heavy=("pyarrow.parquet",),  # what generates, an engine, has its own
)


def run(context: Context) -> None:
    from posttrain.runtime.evals.evaluation import evaluate

    evaluate(context)
