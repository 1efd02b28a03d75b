"""Estimates the time of the parts of a stage that read or write files: its start, its checkpoints."""

from posttrain.compiler.facts.accelerators import Device
from posttrain.compiler.facts.cost_constants import cost_constants
from posttrain.compiler.memory import model_states
from posttrain.compiler.memory.duration import TimeShare
from posttrain.compiler.memory.memory_terms import format_gib
from posttrain.compiler.memory.workload import Workload


def startup_share(workload: Workload, device: Device) -> TimeShare:
    """Return the time before the first step or completion: a process imports libraries, initializes the GPUs,
    compiles kernels and reads the weights."""
    weights = model_states.model_parameters(workload, workload.model) * workload.element
    weights += sum(model_states.frozen_weight_bytes(workload, one) for one in workload.frozen)
    best, worst = _transfer_seconds(weights, device)
    why = f"imports, {format_gib(weights)} of weights"
    start = cost_constants(device).process_start_seconds
    return TimeShare("startup", start.best + best, start.worst + worst, why)


def checkpoint_share(workload: Workload, device: Device, count: int) -> TimeShare:
    """Return the time that training waits for its checkpoints, and for its product at the end."""
    shapes = [shape for shape in (workload.model, workload.value_model) if shape is not None]
    element = model_states.trained_element_size(workload)
    weights = sum(model_states.trainable_parameters(workload, shape) for shape in shapes) * element
    whole = model_states.shard_count(workload, 1)
    states = sum(model_states.optimizer_state_bytes(workload, shape) for shape in shapes) * whole
    best, worst = _transfer_seconds(count * (weights + states) + weights, device)
    return TimeShare("checkpoints", best, worst, f"{count} x {format_gib(weights + states)}, and the product")


def _transfer_seconds(size: float, device: Device) -> tuple[float, float]:
    worst, best = cost_constants(device).disk_bytes_per_second
    return size / best, size / worst
