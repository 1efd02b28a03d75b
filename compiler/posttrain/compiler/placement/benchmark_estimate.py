"""Estimates the time of a benchmark stage whose tasks only score given texts, such as choices."""

from collections.abc import Sequence
from typing import Any

from posttrain.compiler.facts.cost_constants import cost_constants
from posttrain.compiler.facts.fact_tables import load_table
from posttrain.compiler.memory.duration import TimeShare
from posttrain.compiler.memory.generation_duration import effective_parameters
from posttrain.compiler.memory.memory_terms import format_count
from posttrain.compiler.memory.storage_duration import startup_share
from posttrain.compiler.memory.workload import Workload
from posttrain.compiler.placement.estimate_record import time_record
from posttrain.compiler.placement.target import Target
from posttrain.compiler.stages.benchmark_stage import Task
from posttrain.spec.architectures.model_shapes import Shape
from posttrain.spec.eval_stages import Benchmark

ITEM_COUNT_UNKNOWN = "the number of items of a benchmark task is not known"
TOKENS_PER_TEXT = 100  # mean of the known tasks, without examples
_FORWARD_SHARE = 1 / 3  # of the kernels of a forward and backward pass


def count_texts(stage: Benchmark, tasks: Sequence[Task]) -> int | None:
    """Return the number of texts that the tasks score, or None if it is not known."""
    known = load_table("benchmark_items")["items"]
    total = 0
    for task in tasks:
        if task.is_local or task.name not in known:
            return None
        items, choices = known[task.name]
        total += min(items, stage.limit or items) * choices
    return total


def benchmark_estimate(
    shape: Shape, element: int, texts: int, stage: Benchmark, gpus: int, target: Target
) -> dict[str, Any]:
    """Return the time and cost of a benchmark of one model, with the assumption on its texts."""
    length = TOKENS_PER_TEXT * (1 + (stage.num_fewshot or 0))
    work = Workload(model=shape, length=length, train=False, element=2 if element == 2 else 4)
    operations = 2 * texts * length * effective_parameters(shape, length)
    known = cost_constants(target.device)
    least = operations / (target.device.tflops * 1e12)
    passes = -(-texts // stage.batch_size) * shape.layers * _FORWARD_SHARE
    why = f"{format_count(texts)} texts of about {length} tokens"
    scoring = TimeShare(
        "scoring",
        max(least / known.mfu_forward.best, passes * known.layer_launch_seconds.best),
        max(least / known.mfu_forward.worst, passes * known.layer_launch_seconds.worst),
        why,
    )
    assumed = f"benchmark texts of about {TOKENS_PER_TEXT} tokens, and as many for each example"
    return {**time_record((startup_share(work, target.device), scoring), gpus, target), "assumes": [assumed]}
