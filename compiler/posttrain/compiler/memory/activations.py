"""One trained model's share of a training step, as bare numbers of bytes: what its layers keep
from forward to backward, what the layer under way adds, and its gradients part by part."""

from typing import NamedTuple

from posttrain.compiler.facts import parameters
from posttrain.compiler.facts.parameters import Block
from posttrain.compiler.facts.shapes import Shape
from posttrain.compiler.memory import loss, state
from posttrain.compiler.memory.graph import Graph, graph
from posttrain.compiler.memory.layers import dropout, fixed, masked, norm, per_token, saved
from posttrain.compiler.memory.passing import dequantised, layer_backward
from posttrain.compiler.memory.workload import Workload


class Pass(NamedTuple):
    """Forward and backward of one micro-batch through one model."""

    kept: float  # by all layers, from their forward to their backward
    kept_by_one: float
    under_way: float  # by the layer that runs backward, beyond what it kept
    top: float  # by the final norm and the loss
    batch: float  # token ids, positions, the attention mask
    casts: float  # bf16 copies of fp32 weights that autocast remembers until the forward ends
    loss_forward: float
    loss_backward: float
    gradients: float
    layer_gradient: float  # of one layer, the largest
    early_gradient: float  # of those matrices of a layer that have one at its peak
    embedding_gradient: float
    head_gradient: float  # as large; none where the model scores


def micro_batch(workload: Workload, shape: Shape) -> Pass:
    g = graph(workload, shape)
    blocks = parameters.blocks(shape)
    tokens = workload.tokens
    kept, under_way = _layers(workload, g, blocks)
    element = state.trained_element(workload) if g.trains else 0
    scores = workload.loss == "scores"
    return Pass(
        kept=kept,
        kept_by_one=kept / shape.layers,
        under_way=under_way,
        top=tokens * norm(g, shape.hidden, g.stream) + loss.saved_by_loss(workload, g),
        batch=tokens * (40 + dropout(g) + _mask(g)) + 2 * g.length * shape.head_dim * g.stream,
        casts=_remembered_casts(workload, g, blocks),
        loss_forward=loss.forward(workload, g),
        loss_backward=loss.backward(workload, g),
        gradients=state.gradients(workload, shape),
        layer_gradient=element * max(b.elements for b in blocks) / state.shards(workload, 2),
        early_gradient=element * _early(g, blocks) / state.shards(workload, 2),
        embedding_gradient=element * shape.vocab * shape.hidden,
        head_gradient=0 if scores else element * shape.vocab * shape.hidden,
    )


def _layers(workload: Workload, g: Graph, blocks: tuple[Block, ...]) -> tuple[float, float]:
    """What all layers keep, and what the one under way adds. With checkpointing a layer keeps its
    input alone, and makes the rest again when its backward comes."""
    tokens, shape = workload.tokens, g.shape
    parts = {b: saved(g, b) for b in blocks}
    whole = {b: tokens * per_token(kept) + fixed(kept) for b, kept in parts.items()}
    passing = {b: tokens * layer_backward(g, b, kept) + dequantised(g, b) for b, kept in parts.items()}
    if workload.checkpointing:
        inputs = tokens * g.stream * shape.hidden * shape.layers
        return inputs, max(whole[b] + passing[b] for b in blocks)
    everything = sum(b.layers * whole[b] for b in blocks) - tokens * _first_norm(g)
    return everything, max(passing.values())


def _early(g: Graph, blocks: tuple[Block, ...]) -> int:
    """A layer's backward is largest in its MLP, or in attention where that is written out."""
    parts = ("down",)
    if g.attention in ("eager", "plain"):
        parts = ("down", "gate_up", "attention_out")
    return max(sum(m.elements for m in b.matrices if m.part in parts) for b in blocks)


def _first_norm(g: Graph) -> float:
    """The first norm of a model keeps nothing if only adapters behind it learn."""
    if g.trains or g.shape.architecture.norms == "after":
        return 0
    one = norm(g, g.shape.hidden, g.stream)
    return 2 * one if g.shape.architecture.norms == "shared_input" else one


def _mask(g: Graph) -> float:
    """The attention mask of a batch, made once for all layers. Bytes per token."""
    if g.attention == "masked_once":
        return g.stream * g.shape.heads * g.length
    if g.attention == "eager":
        return g.stream * g.length
    kinds = {b.mixer for b in parameters.blocks(g.shape) if masked(g, b)}
    return len(kinds) * g.length


def _remembered_casts(workload: Workload, g: Graph, blocks: tuple[Block, ...]) -> float:
    """Without checkpointing the same copies are among what the layers keep."""
    if not (g.autocast and g.weight == 4 and workload.checkpointing and g.trains):
        return 0
    return 2 * sum(b.layers * sum(m.elements for m in b.matrices) for b in blocks)
