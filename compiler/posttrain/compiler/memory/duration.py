"""Estimates the time and the cost of a workload as a range, because a GPU never reaches its peak speed.

Training: k operations per parameter and token (2 forward, 4 backward, 2 more with recomputation, 2 fewer for
frozen weights) at a share of the peak speed. Each layer adds the time to launch its kernels, which dominates
for small models. `generation_duration.py` estimates generation.
"""

from typing import NamedTuple

from posttrain.compiler.facts import parameter_counts
from posttrain.compiler.facts.accelerators import Device
from posttrain.compiler.facts.cost_constants import Bounds, cost_constants
from posttrain.compiler.memory.communication import communication_seconds, step_communication_bytes
from posttrain.compiler.memory.generation_duration import (
    CompletionWork,
    effective_parameters,
    generation_seconds,
)
from posttrain.compiler.memory.memory_terms import format_count, format_gib
from posttrain.compiler.memory.workload import Workload


class ExpectedWork(NamedTuple):
    """The expected amount of work: mean values, where the workload has maximum values."""

    steps: int  # optimizer steps
    tokens_per_row: float  # of a training row, mean
    completions_per_step: int = 0  # completions per optimizer step, over all GPUs
    tokens_per_completion: float = 0  # of a completion, mean


class TimeShare(NamedTuple):
    """The time of one cause, in seconds, best and worst."""

    name: str
    min_seconds: float
    max_seconds: float
    why: str


class Duration(NamedTuple):
    min_seconds: float
    max_seconds: float
    shares: tuple[TimeShare, ...]
    trained_tokens: float
    min_dollars: float
    max_dollars: float


def estimate_duration(workload: Workload, device: Device, schedule: ExpectedWork) -> Duration:
    shares = (
        *(_training_shares(workload, device, schedule) if workload.train else ()),
        *_frozen_model_shares(workload, device, schedule),
        *_generation_share(workload, device, schedule),
    )
    least, most = sum(s.min_seconds for s in shares), sum(s.max_seconds for s in shares)
    price = workload.gpus * device.dollars_per_hour / 3600
    tokens = schedule.steps * workload.global_rows * schedule.tokens_per_row
    return Duration(least, most, shares, tokens, least * price, most * price)


def _training_shares(workload: Workload, device: Device, schedule: ExpectedWork) -> tuple[TimeShare, ...]:
    rows = workload.global_rows * schedule.steps
    factor = (4 if workload.adapter else 6) + (2 if workload.checkpointing else 0)
    tokens = rows * schedule.tokens_per_row
    operations = factor * tokens * effective_parameters(workload.model, schedule.tokens_per_row)
    if workload.value_model is not None:
        operations += factor * tokens * effective_parameters(workload.value_model, schedule.tokens_per_row)
    mfu = _training_mfu(workload, device)
    speed = workload.gpus * device.tflops * 1e12
    models = 1 + (workload.value_model is not None)
    passes = schedule.steps * workload.accumulation * workload.model.layers * models
    passes *= 4 / 3 if workload.checkpointing else 1
    launched = cost_constants(device).layer_launch_seconds
    least = max(operations / speed / mfu.best, passes * launched.best)
    most = max(operations / speed / mfu.worst, passes * launched.worst)
    why = f"{factor} x {format_count(active_trained_parameters(workload))} x {format_count(tokens)} tokens"
    training = TimeShare("training", least, most, why)
    return (training, *_communication_share(workload, device, schedule.steps, least))


def _communication_share(
    workload: Workload, device: Device, steps: int, training_seconds: float
) -> tuple[TimeShare, ...]:
    """Return the time of gradients and weights between devices, of which the best case hides the part that
    overlaps with the passes. With one node, it is in the MFU, which was observed on one."""
    if workload.nodes == 1:
        return ()
    volume = step_communication_bytes(workload)
    each = communication_seconds(workload, device, volume)
    least = max(0.0, steps * each.best - training_seconds)
    why = f"{format_gib(volume)} per device and step, {workload.strategy} over {workload.nodes} nodes"
    return (TimeShare("communication", least, steps * each.worst, why),)


def active_trained_parameters(workload: Workload) -> int:
    """Return the number of parameters that a trained token passes through."""
    value = parameter_counts.active_parameters(workload.value_model) if workload.value_model else 0
    return parameter_counts.active_parameters(workload.model) + value


def _training_mfu(workload: Workload, device: Device) -> Bounds:
    constants = cost_constants(device)
    if workload.adapter is None:
        return constants.mfu_full
    return constants.mfu_qlora if workload.adapter.quantized else constants.mfu_lora


def _frozen_model_shares(workload: Workload, device: Device, schedule: ExpectedWork) -> tuple[TimeShare, ...]:
    """Return the time of reference and reward models, which read every row once."""
    speed = workload.gpus * device.tflops * 1e12
    worst, best = cost_constants(device).mfu_forward
    tokens = schedule.steps * workload.global_rows * schedule.tokens_per_row
    return tuple(
        TimeShare(
            f"{model.role} model",
            2 * tokens * effective_parameters(model.shape, schedule.tokens_per_row) / speed / best,
            2 * tokens * effective_parameters(model.shape, schedule.tokens_per_row) / speed / worst,
            f"2 x {format_count(parameter_counts.active_parameters(model.shape))} x {format_count(tokens)}"
            " tokens",
        )
        for model in workload.frozen
    )


def _generation_share(workload: Workload, device: Device, schedule: ExpectedWork) -> tuple[TimeShare, ...]:
    rollout = workload.rollout
    if rollout is None or not schedule.completions_per_step:
        return ()
    gpus = rollout.gpus or workload.gpus
    each = -(-schedule.completions_per_step // gpus)
    work = CompletionWork(schedule.completions_per_step, schedule.tokens_per_completion, gpus)
    once = generation_seconds(workload.model, rollout, device, work)
    why = (
        f"{format_count(schedule.steps * schedule.completions_per_step)} completions,"
        f" {min(rollout.sequences, each)} at a time per GPU"
    )
    name = "rollouts" if workload.train else "generation"
    return (TimeShare(name, schedule.steps * once.least, schedule.steps * once.most, why),)
