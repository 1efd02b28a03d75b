"""Estimates what the devices of a training exchange in an optimizer step, and how long it takes.

The volumes are those of ring algorithms: each device sends the share (N-1)/N of a gathered or reduced tensor,
and an all-reduce is a reduce-scatter and a gather.
"""

from posttrain.compiler.facts import parameter_counts
from posttrain.compiler.facts.accelerators import Device
from posttrain.compiler.facts.cost_constants import Bounds, cost_constants
from posttrain.compiler.memory import model_states
from posttrain.compiler.memory.workload import Workload

_BF16_BYTES = 2


def step_communication_bytes(workload: Workload) -> float:
    """Return the bytes that each device sends in an optimizer step."""
    if workload.gpus == 1:
        return 0.0
    shapes = [shape for shape in (workload.model, workload.value_model) if shape is not None]
    element = model_states.trained_element_size(workload)
    trained = sum(model_states.trainable_parameters(workload, shape) for shape in shapes)
    gradients, updated = trained * element, trained * _BF16_BYTES
    weights = _BF16_BYTES * sum(parameter_counts.count_parameters(shape) for shape in shapes)
    micro_batches = workload.accumulation
    match workload.strategy:
        case "single" | "ddp":
            volume = 2 * gradients
        case "zero1":
            volume = gradients + updated
        case "zero2":  # reduces after each micro-batch, gathers the updated weights
            volume = micro_batches * gradients + updated
        case "zero3":  # gathers the weights in both passes
            volume = micro_batches * (2 * weights + gradients)
        case "fsdp":  # reduces after the last micro-batch
            volume = micro_batches * 2 * weights + gradients
    return volume * (workload.gpus - 1) / workload.gpus


def communication_seconds(workload: Workload, device: Device, volume: float) -> Bounds:
    """Return the time in which each device of several nodes sends this volume.

    In a ring, the network adapters of a node together pass on what each of its devices sends.
    """
    constants = cost_constants(device)
    link, network = constants.link_bytes_per_second, constants.network_bytes_per_second
    local = workload.gpus // workload.nodes
    return Bounds(
        volume / min(link.worst, local * network.worst), volume / min(link.best, local * network.best)
    )
