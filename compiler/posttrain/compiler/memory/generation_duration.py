"""Estimates the time in which an engine generates completions: rollouts, evals, and in-loop evaluations.

Each decoded token of a batch reads all weights and the whole cache once, so the memory bandwidth decides.
Each layer adds the time to launch its kernels, which dominates for small models.
"""

from typing import NamedTuple

from posttrain.compiler.facts import parameter_counts
from posttrain.compiler.facts.accelerators import Device
from posttrain.compiler.facts.cost_constants import cost_constants
from posttrain.compiler.memory.generation_memory import BF16_BYTES, kv_cache_bytes
from posttrain.compiler.memory.workload import RolloutWorkload
from posttrain.spec.architectures.model_shapes import Shape


class CompletionWork(NamedTuple):
    """Completions to generate, over all devices. The rollout workload has their maximum lengths."""

    completions: int
    mean_tokens: float
    gpus: int = 1  # that generate, each with its own share of the completions


class Seconds(NamedTuple):
    """A time as a range, best and worst."""

    least: float
    most: float


def generation_seconds(
    model: Shape, rollout: RolloutWorkload, device: Device, work: CompletionWork
) -> Seconds:
    """Return the time in which the devices generate the completions side by side."""
    if not work.completions:
        return Seconds(0.0, 0.0)
    each = -(-work.completions // work.gpus)
    at_once = min(rollout.sequences, work.completions if rollout.engine == "transformers" else each)
    if rollout.engine == "transformers":
        # Whole batches, of which each device takes some; each runs until its longest completion ends.
        batches = -(-work.completions // at_once)
        rounds, length = -(-batches // work.gpus), rollout.completion_tokens
    else:  # vLLM starts the next completion as soon as one ends
        rounds, length = each / at_once, work.mean_tokens
    least, most = _decode_step_seconds(model, rollout, device, at_once, length)
    prompt = 2 * rollout.prompt_tokens * at_once * effective_parameters(model, rollout.prompt_tokens)
    first = prompt / (device.tflops * 1e12)
    worst, best = cost_constants(device).mfu_forward
    return Seconds(rounds * (length * least + first / best), rounds * (length * most + first / worst))


def effective_parameters(shape: Shape, length: float) -> float:
    """Return the parameters, with attention as extra parameters: each token attends to half of the row."""
    full = sum(b.layers for b in parameter_counts.layer_blocks(shape) if b.mixer == "full")
    seen = min(length, shape.window) if shape.window else 0
    windowed = sum(b.layers for b in parameter_counts.layer_blocks(shape) if b.mixer == "window")
    attention = shape.query_width * (full * length + windowed * seen)
    return parameter_counts.computed_parameters(shape) + attention


def _decode_step_seconds(
    shape: Shape, rollout: RolloutWorkload, device: Device, at_once: int, length: float
) -> tuple[float, float]:
    """Return the seconds to decode one more token of each sequence, best and worst."""
    weights = BF16_BYTES * parameter_counts.active_parameters(shape) / rollout.tensor_parallel_size
    average = rollout.prompt_tokens + int(length / 2)
    cache_bytes = at_once * kv_cache_bytes(shape, average)
    reading = (weights + cache_bytes) / (device.gb_per_s * 1e9)
    computing = 2 * at_once * parameter_counts.active_parameters(shape) / (device.tflops * 1e12)
    work = max(reading, computing)
    constants = cost_constants(device)
    vllm = rollout.engine == "vllm"
    launched = constants.layer_decode_seconds_vllm if vllm else constants.layer_decode_seconds
    reached = constants.bandwidth_utilization
    return (
        max(work / reached.best, shape.layers * launched.best),
        max(work / reached.worst, shape.layers * launched.worst),
    )
