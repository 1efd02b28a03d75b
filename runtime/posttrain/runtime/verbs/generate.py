"""The verb `generate`: generates completions or conversations for the rows of a dataset."""

from posttrain.runtime.step_context import StepContext
from posttrain.spec.extension import Verb
from posttrain.spec.step_params.artifact_params import GenerateStepParams

EXTENSION = Verb(
    name="generate",
    summary="A dataset of generated completions, preference pairs or conversations.",
    version=2,
    preload=("pyarrow.parquet",),  # engines declare their own modules
)


def run(context: StepContext[GenerateStepParams]) -> None:
    from posttrain.runtime.evaluation.sample_completions.generate_stage import run_generate

    run_generate(context)
