"""One trained model's share of a training step, as bare numbers of bytes: what its layers keep
from forward to backward, what the layer under way adds, and its gradients part by part."""

from typing import NamedTuple

from posttrain.compiler.facts import parameter_counts
from posttrain.compiler.facts.model_shapes import Shape
from posttrain.compiler.facts.parameter_counts import Block
from posttrain.compiler.memory import loss_memory, model_states
from posttrain.compiler.memory.activation_graph import ActivationGraph, build_activation_graph
from posttrain.compiler.memory.backward_peak import dequantized_bytes, layer_backward_bytes
from posttrain.compiler.memory.saved_tensors import (
    dropout_bytes,
    needs_attention_mask,
    norm_bytes,
    saved_tensors,
    sum_fixed,
    sum_per_token,
)
from posttrain.compiler.memory.workload import Workload


class MicroBatchMemory(NamedTuple):
    """Forward and backward of one micro-batch through one model."""

    saved_activations: float  # by all layers, from their forward to their backward
    saved_per_layer: float
    layer_backward_peak: float  # by the layer that runs backward, beyond what it kept
    head_activations: float  # by the final norm and the loss
    batch_tensors: float  # token ids, positions, the attention mask
    autocast_copies: float  # bf16 copies of fp32 weights that autocast remembers until the forward ends
    loss_forward: float
    loss_backward: float
    gradients: float
    layer_gradient: float  # of one layer, the largest
    early_gradient: float  # of those matrices of a layer that have one at its peak
    embedding_gradient: float
    head_gradient: float  # as large; none where the model scores


def micro_batch_memory(workload: Workload, shape: Shape) -> MicroBatchMemory:
    g = build_activation_graph(workload, shape)
    blocks = parameter_counts.layer_blocks(shape)
    tokens = workload.tokens
    kept, under_way = _layer_memory(workload, g, blocks)
    element = model_states.trained_element_size(workload) if g.trains_base else 0
    scores = workload.loss == "scores"
    return MicroBatchMemory(
        saved_activations=kept,
        saved_per_layer=kept / shape.layers,
        layer_backward_peak=under_way,
        head_activations=tokens * norm_bytes(g, shape.hidden, g.residual_element_size)
        + loss_memory.saved_loss_bytes(workload, g),
        batch_tensors=tokens * (40 + dropout_bytes(g) + _mask_bytes(g))
        + 2 * g.length * shape.head_dim * g.residual_element_size,
        autocast_copies=_autocast_weight_copies(workload, g, blocks),
        loss_forward=loss_memory.loss_forward_bytes(workload, g),
        loss_backward=loss_memory.loss_backward_bytes(workload, g),
        gradients=model_states.gradient_bytes(workload, shape),
        layer_gradient=element * max(b.elements for b in blocks) / model_states.shard_count(workload, 2),
        early_gradient=element * _early_gradient_elements(g, blocks) / model_states.shard_count(workload, 2),
        embedding_gradient=element * shape.vocab * shape.hidden,
        head_gradient=0 if scores else element * shape.vocab * shape.hidden,
    )


def _layer_memory(workload: Workload, g: ActivationGraph, blocks: tuple[Block, ...]) -> tuple[float, float]:
    """What all layers keep, and what the one under way adds. With checkpointing a layer keeps its
    input alone, and makes the rest again when its backward comes."""
    tokens, shape = workload.tokens, g.shape
    parts = {b: saved_tensors(g, b) for b in blocks}
    whole = {b: tokens * sum_per_token(kept) + sum_fixed(kept) for b, kept in parts.items()}
    passing = {
        b: tokens * layer_backward_bytes(g, b, kept) + dequantized_bytes(g, b) for b, kept in parts.items()
    }
    if workload.checkpointing:
        inputs = tokens * g.residual_element_size * shape.hidden * shape.layers
        return inputs, max(whole[b] + passing[b] for b in blocks)
    everything = sum(b.layers * whole[b] for b in blocks) - tokens * _first_norm_bytes(g)
    return everything, max(passing.values())


def _early_gradient_elements(g: ActivationGraph, blocks: tuple[Block, ...]) -> int:
    """A layer's backward is largest in its MLP, or in attention where that is written out."""
    parts = ("down",)
    if g.attention in ("eager", "plain"):
        parts = ("down", "gate_up", "attention_out")
    return max(sum(m.elements for m in b.matrices if m.part in parts) for b in blocks)


def _first_norm_bytes(g: ActivationGraph) -> float:
    """The first norm of a model keeps nothing if only adapters behind it learn."""
    if g.trains_base or g.shape.architecture.norms == "after":
        return 0
    one = norm_bytes(g, g.shape.hidden, g.residual_element_size)
    return 2 * one if g.shape.architecture.norms == "shared_input" else one


def _mask_bytes(g: ActivationGraph) -> float:
    """The attention mask of a batch, made once for all layers. Bytes per token."""
    if g.attention == "masked_once":
        return g.residual_element_size * g.shape.heads * g.length
    if g.attention == "eager":
        return g.residual_element_size * g.length
    kinds = {b.mixer for b in parameter_counts.layer_blocks(g.shape) if needs_attention_mask(g, b)}
    return len(kinds) * g.length


def _autocast_weight_copies(workload: Workload, g: ActivationGraph, blocks: tuple[Block, ...]) -> float:
    """Without checkpointing the same copies are among what the layers keep."""
    if not (g.autocast and g.weight_element_size == 4 and workload.checkpointing and g.trains_base):
        return 0
    return 2 * sum(b.layers * sum(m.elements for m in b.matrices) for b in blocks)
