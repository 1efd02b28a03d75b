"""Estimates the time of the parts of a stage that read or write files: its start, its checkpoints."""

from posttrain.compiler.memory import model_states
from posttrain.compiler.memory.duration import TimeShare
from posttrain.compiler.memory.memory_terms import format_gib
from posttrain.compiler.memory.workload import Workload

# The seconds before the first step without the weights, best and worst: a process imports libraries,
# initializes the GPUs and compiles kernels.
PROCESS_START_SECONDS = (30.0, 60.0)
DISK_BYTES_PER_SECOND = (2e9, 0.3e9)  # of a local SSD and of a network disk


def startup_share(workload: Workload) -> TimeShare:
    """Return the time before the first step or completion."""
    weights = model_states.model_parameters(workload, workload.model) * workload.element
    weights += sum(model_states.frozen_weight_bytes(workload, one) for one in workload.frozen)
    best, worst = _transfer_seconds(weights)
    why = f"imports, {format_gib(weights)} of weights"
    return TimeShare("startup", PROCESS_START_SECONDS[0] + best, PROCESS_START_SECONDS[1] + worst, why)


def checkpoint_share(workload: Workload, count: int) -> TimeShare:
    """Return the time that training waits for its checkpoints, and for its product at the end."""
    shapes = [shape for shape in (workload.model, workload.value_model) if shape is not None]
    element = model_states.trained_element_size(workload)
    weights = sum(model_states.trainable_parameters(workload, shape) for shape in shapes) * element
    whole = model_states.shard_count(workload, 1)
    states = sum(model_states.optimizer_state_bytes(workload, shape) for shape in shapes) * whole
    best, worst = _transfer_seconds(count * (weights + states) + weights)
    return TimeShare("checkpoints", best, worst, f"{count} x {format_gib(weights + states)}, and the product")


def _transfer_seconds(size: float) -> tuple[float, float]:
    return size / DISK_BYTES_PER_SECOND[0], size / DISK_BYTES_PER_SECOND[1]
