"""Places a stage that only generates, such as an eval, on the target."""

from collections.abc import Sequence
from dataclasses import replace

from posttrain.compiler.facts.accelerators import Device
from posttrain.compiler.memory.duration import ExpectedWork
from posttrain.compiler.memory.memory_estimate import MemoryEstimate, estimate_memory
from posttrain.compiler.memory.workload import RolloutWorkload, Workload
from posttrain.compiler.placement.assumed_lengths import MEAN_COMPLETION_SHARE, assumed_prompt_tokens
from posttrain.compiler.placement.estimate_record import (
    ROW_COUNT_UNKNOWN,
    generation_estimate_record,
    total_record,
)
from posttrain.compiler.placement.inloop_evaluation import MAX_NUM_SEQS
from posttrain.compiler.placement.stage_placement import StagePlacement
from posttrain.compiler.placement.target import Target
from posttrain.compiler.resolution.lineage import weight_element_size
from posttrain.spec.architectures.model_shapes import Shape
from posttrain.spec.inference import Sampling
from posttrain.spec.model_declaration import Model
from posttrain.spec.plan import Launch

_GPU_MEMORY_UTILIZATION = 0.9


def place_generation(
    model: Model | None,
    shape: Shape | None,
    sampling: Sampling,
    rows: int | None,
    engine: str,
    target: Target,
    about: str = "",
) -> StagePlacement:
    """Place the stage on one GPU, or on as many as the weights need. Without a known shape there is no
    estimate."""
    if shape is None:
        return StagePlacement(launch=Launch(engine=engine), gpus=1 if target.gpus else 0)
    work, memory = _smallest_tensor_parallel(shape, model, sampling, engine, target)
    parallel = work.rollout.tensor_parallel_size if work.rollout else 1
    schedule = (
        ExpectedWork(1, 0, rows * sampling.n, MEAN_COMPLETION_SHARE * sampling.max_tokens) if rows else None
    )
    return StagePlacement(
        launch=Launch(
            engine=engine,
            rollouts={"gpu_memory_utilization": _GPU_MEMORY_UTILIZATION, "tensor_parallel_size": parallel}
            if engine == "vllm"
            else {},
        ),
        gpus=parallel if target.gpus else 0,
        estimate={
            **generation_estimate_record(work, memory, schedule, parallel, target),
            **({"assumes": [about]} if about and target.gpus else {}),
            **({"unknown_reason": ROW_COUNT_UNKNOWN} if schedule is None and target.gpus else {}),
        },
    )


def combine_placements(placements: Sequence[StagePlacement]) -> StagePlacement:
    """Combine models that a stage runs one after the other: the largest memory, the sum of the times."""
    largest = max(placements, key=lambda one: (one.estimate or {}).get("memory_gb", 0.0))
    if len(placements) == 1 or any(one.estimate is None for one in placements):
        return largest
    estimates = [one.estimate or {} for one in placements]
    if not all("parts" in one for one in estimates):
        return largest
    total = total_record([part for one in estimates for part in one["parts"]])
    return replace(largest, estimate={**(largest.estimate or {}), **total})


def _smallest_tensor_parallel(
    shape: Shape, model: Model | None, sampling: Sampling, engine: str, target: Target
) -> tuple[Workload, MemoryEstimate]:
    found = [
        _workload_on(n, shape, model, sampling, engine, target.device)
        for n in (1, 2, 4, 8)
        if n <= max(1, target.gpus)
    ]
    if engine != "vllm":
        return found[0]
    return next((pair for pair in found if pair[1].fits), found[-1])


def _workload_on(
    parallel: int, shape: Shape, model: Model | None, sampling: Sampling, engine: str, device: Device
) -> tuple[Workload, MemoryEstimate]:
    vllm = engine == "vllm"
    prompt = assumed_prompt_tokens(shape, sampling)
    rollout = RolloutWorkload(
        "vllm" if vllm else "transformers",
        prompt,
        sampling.max_tokens,
        MAX_NUM_SEQS if vllm else sampling.batch_size * sampling.n,
        gpu_memory_utilization=_GPU_MEMORY_UTILIZATION,
        tensor_parallel_size=parallel,
    )
    work = Workload(
        model=shape,
        length=prompt + sampling.max_tokens,
        train=False,
        element=2 if weight_element_size(model) == 2 else 4,
        rollout=rollout,
    )
    return work, estimate_memory(work, device)
