"""The verb `benchmark`: evaluates models on lm-eval tasks."""

from posttrain.runtime.errors import StepError
from posttrain.runtime.step_context import StepContext
from posttrain.spec.extension import Verb
from posttrain.spec.step_params.eval_params import BenchmarkStepParams

EXTENSION = Verb(
    name="benchmark",
    summary="Scores of models on lm-eval tasks, as metrics with confidence intervals.",
    stack=("lm-eval", "datasets", "torch", "transformers", "tokenizers"),
    preload=("pyarrow.parquet", "datasets", "torch", "transformers.modeling_utils"),
)


def run(context: StepContext[BenchmarkStepParams]) -> None:
    from importlib.util import find_spec

    if find_spec("lm_eval") is None:
        raise StepError("lm-eval is not installed", "install it: pip install 'posttrain[benchmarks]'")
    from posttrain.runtime.evaluation.lm_eval.benchmark_stage import run_benchmark

    run_benchmark(context)
