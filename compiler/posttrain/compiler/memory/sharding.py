"""The memory that several GPUs add to each GPU: gradient buckets, and the gathered weights of a sharded
model."""

from dataclasses import replace

from posttrain.compiler.facts import parameter_counts
from posttrain.compiler.memory import model_states
from posttrain.compiler.memory.memory_terms import MemoryTerm, format_count, memory_term
from posttrain.compiler.memory.workload import Workload
from posttrain.spec.architectures.model_shapes import Shape

# The defaults of DeepSpeed, in elements: the size of a gradient bucket, and the gathered weights of stage 3
REDUCE_BUCKET_SIZE = 500_000_000
MAX_LIVE_PARAMETERS = 1_000_000_000


def backward_sharding_terms(workload: Workload, shape: Shape) -> tuple[MemoryTerm, ...]:
    learning = _trainable_parameters(workload, shape)
    if workload.gpus == 1:
        return ()
    if workload.strategy == "ddp":
        size = learning * model_states.trained_element_size(workload)
        return (memory_term("gradient buckets", size, "DDP keeps a flat copy of every gradient"),)
    if workload.strategy in ("zero1", "zero2", "zero3"):
        size = 2 * min(REDUCE_BUCKET_SIZE, learning)
        bucket = memory_term("gradient bucket", size, f"DeepSpeed reduces {format_count(size / 2)} at a time")
        return (bucket, *gathered_weight_terms(workload, shape))
    return gathered_weight_terms(workload, shape)


def _trainable_parameters(workload: Workload, shape: Shape) -> int:
    """Return the number of parameters whose gradients are exchanged, including those of the value model."""
    own = model_states.trainable_parameters(workload, shape)
    if workload.value_model is None:
        return own
    return own + model_states.trainable_parameters(
        replace(workload, value_model=None, loss="scores"), workload.value_model
    )


def gathered_weight_terms(workload: Workload, shape: Shape) -> tuple[MemoryTerm, ...]:
    """Return the gathered bf16 weights of the layers that currently run."""
    if workload.gpus == 1:
        return ()
    if workload.strategy == "zero3":
        size = 2 * min(parameter_counts.count_parameters(shape), MAX_LIVE_PARAMETERS)
        return (memory_term("gathered weights", size, "ZeRO-3 keeps up to 1B parameters gathered"),)
    if workload.strategy == "fsdp":
        # this layer, the next layer, and their gradients before the reduce-scatter
        layer = max(b.elements for b in parameter_counts.layer_blocks(shape))
        root = parameter_counts.embedding_parameters(shape) + (
            0 if shape.tied else parameter_counts.head_parameters(shape)
        )
        size = 2 * (2 * layer + root) + 4 * layer
        return (memory_term("gathered weights", size, "two layers, the embeddings, their gradients"),)
    return ()


def optimizer_step_terms(workload: Workload, shape: Shape) -> tuple[MemoryTerm, ...]:
    """Return the temporary memory of the DeepSpeed update: fp32 gradients of its shard, then gathered
    weights."""
    if not model_states.has_master_weights(workload):
        return ()
    learning = _trainable_parameters(workload, shape)
    wide = 4 * learning / model_states.shard_count(workload, 1)
    terms = (memory_term("fp32 gradients", wide, "DeepSpeed updates an fp32 copy", transient=True),)
    if workload.gpus == 1 or workload.strategy == "zero3":
        return terms
    size = 2 * min(REDUCE_BUCKET_SIZE, learning)
    return (*terms, memory_term("gather bucket", size, "new weights are exchanged", transient=True))


def full_weight_terms(workload: Workload, shape: Shape) -> tuple[MemoryTerm, ...]:
    """Return the gathered weights during generation with transformers, which needs the whole model on
    every GPU."""
    if workload.gpus == 1 or model_states.shard_count(workload, 3) == 1:
        return ()
    size = 2 * parameter_counts.count_parameters(shape)
    return (memory_term("gathered weights", size, "generation needs the whole model on every GPU"),)
