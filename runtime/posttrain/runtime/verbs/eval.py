"""The verb `eval`: samples completions of models, scores them, and computes metrics."""

from posttrain.runtime.step_context import StepContext
from posttrain.spec.extension import Verb
from posttrain.spec.step_params.eval_params import EvalStepParams

EXTENSION = Verb(
    name="eval",
    summary="Scored completions, and metrics with confidence intervals.",
    version=3,
    preload=("pyarrow.parquet",),  # engines declare their own modules
)


def run(context: StepContext[EvalStepParams]) -> None:
    from posttrain.runtime.evaluation.eval_stage import run_eval

    run_eval(context)
