"""Puts lm-eval's tasks to models, and gives their metrics in the form that evals have."""

from posttrain.runtime.context import Context
from posttrain.runtime.faults import StepFault
from posttrain.spec.extension import Verb

EXTENSION = Verb(
    name="benchmark",
    summary="lm-eval's tasks, with metrics and their intervals.",
    stack=("lm-eval", "datasets", "torch", "transformers", "tokenizers"),
    heavy=("pyarrow.parquet", "datasets", "torch", "transformers.modeling_utils"),
)


def run(context: Context) -> None:
    from importlib.util import find_spec

    if find_spec("lm_eval") is None:
        raise StepFault("lm-eval is not installed", "install it: pip install 'posttrain[benchmarks]'")
    from posttrain.runtime.benchmarks.benchmark import benchmark

    benchmark(context)
