"""What stays in memory between steps: weights, gradients, optimizer states, and how sharding
divides them. Everything here is per device."""

from posttrain.compiler.facts import parameters
from posttrain.compiler.facts.shapes import Shape
from posttrain.compiler.memory.workload import Adapter, Frozen, Workload

# Bytes of optimizer state per trained parameter, in fp32 and beside bf16 weights. torch keeps
# Adam's moments in the weights' own format; the 8-bit ones add a scale per block of 256.
STATES = {
    "adamw": (8.0, 4.0),
    "adamw_8bit": (2.03, 2.03),
    "lion": (4.0, 2.0),
    "adafactor": (0.02, 0.02),
    "sgd": (0.0, 0.0),
}
NF4 = 0.5 + 4 / 64  # bytes of a 4-bit weight with an fp32 scale per block of 64
NF4_NESTED = 0.5 + 1 / 64 + 4 / (64 * 256)  # the scales in 8 bits, with a scale per 256 of them


def shards(workload: Workload, stage: int) -> int:
    """Over how many devices something that ZeRO divides from this stage on is divided."""
    level = {"zero1": 1, "zero2": 2, "zero3": 3, "fsdp": 3}.get(workload.strategy, 0)
    return workload.gpus if level >= stage else 1


def mastered(workload: Workload) -> bool:
    """DeepSpeed computes with bf16 weights and steps on an fp32 copy of them."""
    return workload.strategy.startswith("zero")


def trained_element(workload: Workload) -> int:
    """Bytes of a weight that learns, as the forward and the gradients see it."""
    if mastered(workload):
        return 2
    if workload.strategy == "fsdp":
        return 4
    return workload.adapter.element if workload.adapter else workload.element


def whole(workload: Workload, shape: Shape) -> int:
    """All parameters. A model that scores has one number in place of the vocabulary."""
    headless = workload.loss == "scores" and not shape.tied
    return parameters.count(shape) - (parameters.head(shape) if headless else 0)


def trained(workload: Workload, shape: Shape) -> int:
    """Parameters that learn."""
    adapter = workload.adapter
    if adapter is None:
        return whole(workload, shape)
    return parameters.adapter_count(shape, targets(adapter, shape), adapter.rank)


def targets(adapter: Adapter, shape: Shape) -> tuple[str, ...]:
    return adapter.targets or shape.architecture.lora


def base_weights(workload: Workload, shape: Shape) -> float:
    """The weights that the forward reads, without an adapter's own."""
    count = whole(workload, shape)
    adapter = workload.adapter
    if adapter is None:
        return count * trained_element(workload) / shards(workload, 3)
    element = 2 if mastered(workload) or workload.strategy == "fsdp" else workload.element
    if not adapter.quantised:
        return count * element / shards(workload, 3)
    packed = parameters.quantisable(shape)
    each = NF4_NESTED if adapter.nested else NF4
    return (packed * each + (count - packed) * element) / shards(workload, 3)


def adapter_weights(workload: Workload, shape: Shape) -> float:
    if workload.adapter is None:
        return 0
    return trained(workload, shape) * trained_element(workload) / shards(workload, 3)


def gradients(workload: Workload, shape: Shape) -> float:
    return trained(workload, shape) * trained_element(workload) / shards(workload, 2)


def optimizer(workload: Workload, shape: Shape) -> float:
    wide, narrow = STATES[workload.optimizer]
    each = wide if mastered(workload) or trained_element(workload) == 4 else narrow
    return trained(workload, shape) * each / shards(workload, 1)


def master(workload: Workload, shape: Shape) -> float:
    if not mastered(workload):
        return 0
    return 4 * trained(workload, shape) / shards(workload, 1)


def frozen_weights(workload: Workload, model: Frozen) -> float:
    divided = shards(workload, 3) if model.sharded else 1
    return parameters.count(model.shape) * model.element / divided
