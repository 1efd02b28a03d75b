"""The memory that persists between steps, per device: weights, gradients and optimizer states, after
sharding."""

from posttrain.compiler.facts import parameter_counts
from posttrain.compiler.memory.workload import FrozenModel, LoraAdapter, Workload
from posttrain.spec.architectures.model_shapes import Shape

# Bytes of optimizer state per trained parameter, for fp32 and for bf16 weights. torch stores Adam's
# moments in the format of the weights; 8-bit optimizers add a scale per block of 256.
OPTIMIZER_STATE_BYTES = {
    "adamw": (8.0, 4.0),
    "adamw_8bit": (2.03, 2.03),
    "lion": (4.0, 2.0),
    "adafactor": (0.02, 0.02),
    "sgd": (0.0, 0.0),
}
NF4_BYTES = 0.5 + 4 / 64  # bytes of a 4-bit weight with an fp32 scale per block of 64
NF4_DOUBLE_QUANT_BYTES = 0.5 + 1 / 64 + 4 / (64 * 256)  # 8-bit scales, with an fp32 scale per 256 scales


def shard_count(workload: Workload, stage: int) -> int:
    """Return over how many devices ZeRO divides a tensor that is sharded from this stage on."""
    level = {"zero1": 1, "zero2": 2, "zero3": 3, "fsdp": 3}.get(workload.strategy, 0)
    return workload.gpus if level >= stage else 1


def has_master_weights(workload: Workload) -> bool:
    """Return whether an fp32 copy of the weights is updated, as DeepSpeed does with bf16 weights."""
    return workload.strategy.startswith("zero")


def trained_element_size(workload: Workload) -> int:
    """Return the bytes per element of a trained weight in the forward pass and in its gradient."""
    if has_master_weights(workload):
        return 2
    if workload.strategy == "fsdp":
        return 4
    return workload.adapter.element if workload.adapter else workload.element


def model_parameters(workload: Workload, shape: Shape) -> int:
    """Return the number of all parameters. A model that scores has one output instead of the vocabulary."""
    headless = workload.loss == "scores" and not shape.tied
    return parameter_counts.count_parameters(shape) - (
        parameter_counts.head_parameters(shape) if headless else 0
    )


def trainable_parameters(workload: Workload, shape: Shape) -> int:
    """Return the number of trained parameters."""
    adapter = workload.adapter
    if workload.trained_parameters is not None:
        return workload.trained_parameters
    if adapter is None:
        return model_parameters(workload, shape)
    return parameter_counts.adapter_parameters(shape, adapter_target_modules(adapter, shape), adapter.rank)


def adapter_target_modules(adapter: LoraAdapter, shape: Shape) -> tuple[str, ...]:
    return adapter.target_modules or shape.architecture.lora


def base_weight_bytes(workload: Workload, shape: Shape) -> float:
    """Return the bytes of the weights that the forward pass reads, without the adapter."""
    count = model_parameters(workload, shape)
    adapter = workload.adapter
    if adapter is None:
        return count * trained_element_size(workload) / shard_count(workload, 3)
    element = 2 if has_master_weights(workload) or workload.strategy == "fsdp" else workload.element
    if not adapter.quantized:
        return count * element / shard_count(workload, 3)
    packed = parameter_counts.quantizable_parameters(shape)
    each = NF4_DOUBLE_QUANT_BYTES if adapter.double_quant else NF4_BYTES
    return (packed * each + (count - packed) * element) / shard_count(workload, 3)


def adapter_weight_bytes(workload: Workload, shape: Shape) -> float:
    if workload.adapter is None:
        return 0
    return trainable_parameters(workload, shape) * trained_element_size(workload) / shard_count(workload, 3)


def gradient_bytes(workload: Workload, shape: Shape) -> float:
    return trainable_parameters(workload, shape) * trained_element_size(workload) / shard_count(workload, 2)


def has_resident_gradients(workload: Workload) -> bool:
    """Return whether the gradients are allocated for the whole training.

    DeepSpeed's stage 3 allocates its partition, `grad_partitions_flat_buffer`, with the optimizer. Other
    strategies allocate gradients in the backward pass and free them after the update.
    """
    return workload.train and workload.strategy == "zero3"


def optimizer_state_bytes(workload: Workload, shape: Shape) -> float:
    wide, narrow = OPTIMIZER_STATE_BYTES[workload.optimizer]
    each = wide if has_master_weights(workload) or trained_element_size(workload) == 4 else narrow
    return trainable_parameters(workload, shape) * each / shard_count(workload, 1)


def master_weight_bytes(workload: Workload, shape: Shape) -> float:
    if not has_master_weights(workload):
        return 0
    return 4 * trainable_parameters(workload, shape) / shard_count(workload, 1)


def frozen_weight_bytes(workload: Workload, model: FrozenModel) -> float:
    divided = shard_count(workload, 3) if model.sharded else 1
    return parameter_counts.count_parameters(model.shape) * model.element / divided
