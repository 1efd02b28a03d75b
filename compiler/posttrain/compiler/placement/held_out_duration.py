"""The time of evaluations on held-out rows during training: forward passes without gradients.

They need less memory than a training step: the same micro-batch or a smaller one, and no activations to keep.
"""

from typing import NamedTuple

from posttrain.compiler.facts import parameter_counts
from posttrain.compiler.facts.accelerators import Device
from posttrain.compiler.facts.cost_constants import cost_constants
from posttrain.compiler.memory.duration import TimeShare
from posttrain.compiler.memory.generation_duration import effective_parameters
from posttrain.compiler.memory.memory_terms import format_count
from posttrain.compiler.memory.workload import Workload

# Of a pass forward and backward, the share of the kernels that a forward pass launches.
_FORWARD_KERNELS = 1 / 3


class HeldOutWork(NamedTuple):
    """The held-out rows of a training stage."""

    rows: int | None  # None if unknown
    row_count_note: str  # the source of the number of rows, if it is a guess
    runs: int  # evaluations; 0 if the number of steps is unknown
    batched: bool  # whether a forward pass computes a micro-batch, and not one row


def held_out_shares(
    workload: Workload, work: HeldOutWork | None, tokens_per_row: float, device: Device
) -> tuple[TimeShare, ...]:
    """Return the time of the evaluations, if the number of rows is known."""
    if work is None or work.rows is None:
        return ()
    sequences = work.rows * workload.rows_per_example
    shapes = [workload.model, *(model.shape for model in workload.frozen if not model.scores)]
    tokens, constants = sequences * tokens_per_row, cost_constants(device)
    operations = sum(2 * tokens * effective_parameters(shape, tokens_per_row) for shape in shapes)
    speed = workload.gpus * device.tflops * 1e12
    size = workload.rows if work.batched else workload.rows_per_example
    passes = -(-sequences // (size * workload.gpus)) * sum(shape.layers for shape in shapes)
    launched = constants.layer_launch_seconds
    least = max(operations / speed / constants.mfu_forward.best, passes * launched.best * _FORWARD_KERNELS)
    most = max(operations / speed / constants.mfu_forward.worst, passes * launched.worst * _FORWARD_KERNELS)
    parameters = sum(parameter_counts.active_parameters(shape) for shape in shapes)
    why = f"{work.runs} x 2 x {format_count(parameters)} x {format_count(tokens)} tokens"
    return (TimeShare("evaluation on held-out rows", work.runs * least, work.runs * most, why),)


def held_out_notes(work: HeldOutWork | None) -> list[str]:
    """Return the assumptions on the held-out rows."""
    if work is None:
        return []
    if work.rows is None:
        return ["evaluation on held-out rows: not in the time, because the number of its rows is not known"]
    return [f"evaluation on held-out rows: {work.row_count_note}"] if work.row_count_note else []
