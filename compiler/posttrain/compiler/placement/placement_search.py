"""Chooses the placement of a training stage: the first strategy that fits, and its fastest settings.

Strategies are tried in the order of their communication cost. For each strategy, gradient checkpointing and
the micro-batch are chosen by the estimated time. Settings of the recipe are never changed.
"""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import isqrt
from typing import NamedTuple

from posttrain.compiler.facts.accelerators import Device
from posttrain.compiler.memory.duration import estimate_duration
from posttrain.compiler.memory.generation_memory import min_gpu_memory_utilization
from posttrain.compiler.memory.memory_estimate import MemoryEstimate, estimate_memory
from posttrain.compiler.memory.workload import RolloutWorkload, Strategy, Workload
from posttrain.compiler.placement.stage_workload import (
    PlacementChoice,
    StageRequirements,
    build_workload,
    expected_work,
)
from posttrain.spec.hardware import DEFAULT_MEMORY_HEADROOM

# The largest share of a GPU for vLLM: without sleep mode, with sleep mode, and on a server.
_MAX_UTILIZATION, _MAX_UTILIZATION_SLEEP_MODE, _SERVER_UTILIZATION = 0.45, 0.85, 0.9
_MIN_UTILIZATION = 0.1
_TENSOR_PARALLEL_SIZES = (1, 2, 4, 8)
_MAX_DIVISOR_TRIED = 100_000
_SEQUENCE_DIVISORS = (1, 2, 4, 8)  # vLLM generates this fraction of the completions at a time
_TENSOR_PARALLEL_SLOWDOWN = 1.2  # for each doubling of the tensor parallel size


class PlacementConstraints(NamedTuple):
    """The placement settings of the recipe; None means that the search decides."""

    processes: int  # the largest number, or the number that the recipe sets
    nodes: int = 1  # over which the processes are spread equally
    strategy: Strategy | None = None
    micro_batch_size: int | None = None
    gradient_checkpointing: bool | None = None
    engine: str | None = None  # for methods that generate completions
    server_gpus: int = 0  # separate GPUs for vLLM
    server_nodes: int = 0  # nodes for vLLM alone
    gpu_memory_utilization: float | None = None
    tensor_parallel_size: int | None = None
    enable_sleep_mode: bool | None = None
    # The micro-batch sizes that the loss of the method does not support.
    refused_micro_batches: frozenset[int] = frozenset()
    # The strategies that the method supports.
    strategies: tuple[str, ...] = ("ddp", "zero2", "zero3")
    # The fraction of the memory that a choice leaves free, since the estimate has errors.
    memory_headroom: float = DEFAULT_MEMORY_HEADROOM


class EvaluatedPlacement(NamedTuple):
    choice: PlacementChoice
    workload: Workload
    estimate: MemoryEstimate

    def fits(self, headroom: float) -> bool:
        return self.estimate.fits and self.estimate.total <= (1 - headroom) * self.estimate.limit


def choose_placement(
    requirements: StageRequirements, constraints: PlacementConstraints, device: Device, bounded: bool
) -> EvaluatedPlacement:
    """Return the best choice that fits, or else the one with the lowest memory."""
    # The choice is the same for any number of steps.
    return _choose_placement(requirements._replace(steps=0, row_count_note=""), constraints, device, bounded)


@functools.lru_cache(maxsize=4096)
def _choose_placement(
    requirements: StageRequirements, constraints: PlacementConstraints, device: Device, bounded: bool
) -> EvaluatedPlacement:
    nearest: EvaluatedPlacement | None = None
    for strategy in _strategies(requirements, constraints):
        fitting: list[EvaluatedPlacement] = []
        for chosen in _placements_with(strategy, requirements, constraints, device):
            if chosen.fits(constraints.memory_headroom) or not bounded:
                fitting.append(chosen)
            if nearest is None or chosen.estimate.total < nearest.estimate.total:
                nearest = chosen
        if fitting:
            return min(fitting, key=lambda c: _placement_cost(c, requirements, device))
    assert nearest is not None, "there is at least one choice"
    return nearest


def _placement_cost(
    chosen: EvaluatedPlacement, requirements: StageRequirements, device: Device
) -> tuple[float, float]:
    duration = estimate_duration(chosen.workload, device, expected_work(requirements)._replace(steps=100))
    rollout = chosen.choice.rollout
    # Costs that the time estimate leaves out: waking up vLLM, and communication for every token.
    factor = (
        1.0
        if rollout is None
        else (1.1 if rollout.enable_sleep_mode else 1.0)
        * _TENSOR_PARALLEL_SLOWDOWN ** (rollout.tensor_parallel_size.bit_length() - 1)
    )
    return (duration.max_seconds + duration.min_seconds) * factor, chosen.estimate.total


def _strategies(requirements: StageRequirements, constraints: PlacementConstraints) -> Sequence[Strategy]:
    if constraints.strategy is not None:
        return (constraints.strategy,)
    if constraints.processes == 1:
        return ("single",)
    if requirements.adapter is not None and requirements.adapter.quantized:
        return ("ddp",)  # 4-bit weights cannot be sharded
    found: tuple[Strategy, ...] = (
        ("ddp", "zero3") if requirements.adapter is not None else ("ddp", "zero2", "zero3")
    )
    return [strategy for strategy in found if strategy in constraints.strategies]


def _placements_with(
    strategy: Strategy, requirements: StageRequirements, constraints: PlacementConstraints, device: Device
) -> Iterator[EvaluatedPlacement]:
    """For each rollout, with and without checkpointing, yield the largest micro-batch that fits, or the
    smallest one."""
    again = (
        (False, True) if constraints.gradient_checkpointing is None else (constraints.gradient_checkpointing,)
    )
    for rollout in _rollouts(requirements, constraints, device, strategy):
        for checkpointing in again:
            last: EvaluatedPlacement | None = None
            for micro in _micro_batch_sizes(requirements, constraints):
                choice = PlacementChoice(
                    constraints.processes, strategy, micro, checkpointing, rollout, constraints.nodes
                )
                work = build_workload(requirements, choice, constraints.refused_micro_batches)
                last = EvaluatedPlacement(choice, work, estimate_memory(work, device))
                if last.fits(constraints.memory_headroom):
                    break
            if last is not None:
                yield last


def _micro_batch_sizes(requirements: StageRequirements, constraints: PlacementConstraints) -> list[int]:
    """Return the micro-batch sizes that divide the batch, the largest first."""
    each = requirements.batch_size // constraints.processes
    if constraints.micro_batch_size is not None:
        return [constraints.micro_batch_size]
    sizes = [m for m in reversed(divisors(each)) if m not in constraints.refused_micro_batches]
    return sizes or [each]


def divisors(number: int) -> list[int]:
    """Return the divisors in ascending order. The search is bounded, because a batch size can be huge."""
    small = [n for n in range(1, min(isqrt(number), _MAX_DIVISOR_TRIED) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})


def _rollouts(
    requirements: StageRequirements, constraints: PlacementConstraints, device: Device, strategy: Strategy
) -> Iterator[RolloutWorkload | None]:
    if not requirements.completions_per_step:
        yield None
        return
    each = max(1, requirements.completions_per_step // constraints.processes)
    completion = requirements.length - requirements.prompt_tokens
    if constraints.engine != "vllm":
        yield RolloutWorkload("transformers", requirements.prompt_tokens, completion, each)
        return
    if constraints.server_gpus:
        yield from _server_rollouts(
            RolloutWorkload("vllm", requirements.prompt_tokens, completion, each, colocated=False),
            requirements,
            constraints,
        )
        return
    for sleep_mode in (
        (False, True) if constraints.enable_sleep_mode is None else (constraints.enable_sleep_mode,)
    ):
        for parallel in _tensor_parallel_sizes(requirements, constraints):
            base = RolloutWorkload(
                "vllm",
                requirements.prompt_tokens,
                completion,
                each,
                tensor_parallel_size=parallel,
                enable_sleep_mode=sleep_mode,
            )
            yield from _colocated_rollouts(base, requirements, constraints, device, strategy)


def _server_rollouts(
    base: RolloutWorkload, requirements: StageRequirements, constraints: PlacementConstraints
) -> Iterator[RolloutWorkload]:
    """Yield the rollouts on separate GPUs, where vLLM takes nearly all of the memory."""
    share = constraints.gpu_memory_utilization or _SERVER_UTILIZATION
    gpus = constraints.server_gpus
    base = replace(base, gpus=gpus, sequences=max(1, requirements.completions_per_step // gpus))
    for parallel in _tensor_parallel_sizes(requirements, constraints._replace(processes=gpus, nodes=1)):
        yield replace(base, gpu_memory_utilization=share, tensor_parallel_size=parallel)


def _colocated_rollouts(
    base: RolloutWorkload,
    requirements: StageRequirements,
    constraints: PlacementConstraints,
    device: Device,
    strategy: Strategy,
) -> Iterator[RolloutWorkload]:
    """Yield the rollout with its share of the GPU: for all completions at once, or for some at a time."""
    most = _MAX_UTILIZATION_SLEEP_MODE if base.enable_sleep_mode else _MAX_UTILIZATION
    work = build_workload(
        requirements, PlacementChoice(constraints.processes, strategy, 1, True, base, constraints.nodes)
    )
    least = base.sequences
    for sequences in sorted({max(1, base.sequences // n) for n in _SEQUENCE_DIVISORS}, reverse=True):
        least = sequences
        needed = -int(-100 * min_gpu_memory_utilization(work, device, sequences) // 1) / 100
        if constraints.gpu_memory_utilization is not None:
            if needed <= constraints.gpu_memory_utilization:
                break
        elif needed <= most:
            yield replace(base, sequences=sequences, gpu_memory_utilization=max(_MIN_UTILIZATION, needed))
    yield replace(base, sequences=least, gpu_memory_utilization=constraints.gpu_memory_utilization or most)


def _tensor_parallel_sizes(requirements: StageRequirements, constraints: PlacementConstraints) -> list[int]:
    if constraints.tensor_parallel_size is not None:
        return [constraints.tensor_parallel_size]
    heads = requirements.model.kv_heads
    return [
        n
        for n in _TENSOR_PARALLEL_SIZES
        if constraints.processes // constraints.nodes % n == 0 and (heads % n == 0 or n % heads == 0)
    ]
