"""The memory of one trained model in a training step, in bytes: saved activations, the current layer, and
gradients."""

from typing import NamedTuple

from posttrain.compiler.facts import parameter_counts
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
from posttrain.spec.architectures.model_shapes import Shape


class MicroBatchMemory(NamedTuple):
    """The forward and backward pass of one micro-batch through one model."""

    saved_activations: float  # of all layers, from their forward to their backward pass
    saved_per_layer: float
    layer_backward_peak: float  # of the current layer, in addition to its saved activations
    head_activations: float  # of the final norm and the loss
    batch_tensors: float  # token ids, positions, the attention mask
    autocast_copies: float  # bf16 copies of fp32 weights, which autocast caches during the forward pass
    loss_forward: float
    loss_backward: float
    gradients: float
    layer_gradient: float  # of the largest layer
    early_gradient: float  # of the matrices of a layer that have a gradient at its peak
    embedding_gradient: float
    head_gradient: float  # the same size; 0 if the model scores


def micro_batch_memory(workload: Workload, shape: Shape) -> MicroBatchMemory:
    g = build_activation_graph(workload, shape)
    blocks = parameter_counts.layer_blocks(shape)
    tokens = workload.tokens
    saved, backward_peak = _layer_memory(workload, g, blocks)
    element = model_states.trained_element_size(workload) if g.trains_base else 0
    scores = workload.loss == "scores"
    return MicroBatchMemory(
        saved_activations=saved,
        saved_per_layer=saved / shape.layers,
        layer_backward_peak=backward_peak,
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
    """Return the bytes that all layers save, and the peak of the current layer. With checkpointing a layer
    saves only its input, and recomputes the rest in the backward pass."""
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
    """Return the elements of the gradients at the peak of a layer: in its MLP, or in materialized
    attention."""
    parts = ("down",)
    if g.attention in ("eager", "plain"):
        parts = ("down", "gate_up", "attention_out")
    return max(sum(m.elements for m in b.matrices if m.part in parts) for b in blocks)


def _first_norm_bytes(g: ActivationGraph) -> float:
    """Return the bytes of the first norm, which saves nothing if only adapters behind it are trained."""
    if g.trains_base or g.shape.architecture.norms == "after":
        return 0
    one = norm_bytes(g, g.shape.hidden, g.residual_element_size)
    return 2 * one if g.shape.architecture.norms == "shared_input" else one


def _mask_bytes(g: ActivationGraph) -> float:
    """Return the bytes per token of the attention mask of a batch, which all layers share."""
    if g.attention == "masked_once":
        return g.residual_element_size * g.shape.heads * g.length
    if g.attention == "eager":
        return g.residual_element_size * g.length
    kinds = {b.mixer for b in parameter_counts.layer_blocks(g.shape) if needs_attention_mask(g, b)}
    return len(kinds) * g.length


def _autocast_weight_copies(workload: Workload, g: ActivationGraph, blocks: tuple[Block, ...]) -> float:
    """Return the bf16 copies of autocast with checkpointing. Otherwise the saved tensors include them."""
    if not (g.autocast and g.weight_element_size == 4 and workload.checkpointing and g.trains_base):
        return 0
    return 2 * sum(b.layers * sum(m.elements for m in b.matrices) for b in blocks)
