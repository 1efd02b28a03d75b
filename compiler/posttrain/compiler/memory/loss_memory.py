"""The memory of the head and the loss, which depends on the size of the vocabulary.

In the chunked loss of TRL 1.16 the logits exist only in tiles, and the gradient of the head accumulates in
fp32. In the full loss the logits, their fp32 copy and its log-softmax exist at the same time.
"""

from posttrain.compiler.facts import parameter_counts
from posttrain.compiler.memory.activation_graph import ActivationGraph
from posttrain.compiler.memory.workload import Workload
from posttrain.spec.architectures.model_shapes import Shape

TILE_TOKENS = 4096
TILE_VOCABULARY = 32768


def logits_tile_bytes(graph: ActivationGraph, tokens: float) -> float:
    """Return the bytes of one tile of TRL, whose width does not depend on the vocabulary."""
    return min(tokens, TILE_TOKENS) * TILE_VOCABULARY * graph.compute_element_size


def saved_loss_bytes(workload: Workload, graph: ActivationGraph) -> float:
    """Return what head and loss save for the backward pass, without the final norm."""
    tokens, shape = workload.tokens, graph.shape
    merged = graph.adapter is not None and graph.adapter.merges_head
    copied = graph.weight_element_size * parameter_counts.head_parameters(shape) if merged else 0
    if workload.loss == "chunked":
        # a copy of the hidden states without the last position, and eight statistics per token
        return tokens * (graph.residual_element_size * shape.hidden + 36) + copied
    if workload.loss == "scores":
        return tokens * graph.residual_element_size * shape.hidden
    normed = 2 if graph.autocast else graph.residual_element_size
    cast = (
        2 * parameter_counts.head_parameters(shape)
        if graph.autocast and graph.weight_element_size == 4
        else 0
    )
    capped = graph.compute_element_size * shape.vocab if shape.architecture.softcap else 0
    return tokens * (normed * shape.hidden + 4 * shape.vocab + capped) + cast + copied


def loss_forward_bytes(workload: Workload, graph: ActivationGraph) -> float:
    """Return the peak of the loss in the forward pass, without what it saves."""
    tokens, vocab = workload.tokens, graph.shape.vocab
    if workload.loss == "scores":
        return 0
    if workload.loss == "chunked":
        return logits_tile_bytes(graph, tokens) + _tile_weight_casts(graph)
    return tokens * vocab * (graph.compute_element_size + 4)


def loss_backward_bytes(workload: Workload, graph: ActivationGraph) -> float:
    """Return the peak of the loss in the backward pass, without what it saved."""
    tokens, shape = workload.tokens, graph.shape
    if workload.loss == "scores":
        return 0
    if workload.loss == "full":
        return 8 * tokens * shape.vocab
    hidden = (
        tokens * shape.hidden * (4 + (graph.residual_element_size if graph.residual_element_size != 4 else 0))
    )
    # the cast weights of one tile still exist when the next tile is cast
    return (
        hidden
        + _fp32_head_gradient(workload, graph)
        + logits_tile_bytes(graph, tokens)
        + 2 * _tile_weight_casts(graph)
    )


def _fp32_head_gradient(workload: Workload, graph: ActivationGraph) -> float:
    """Return the gradient of the head in fp32, with its copy in the format of the weights."""
    if not (graph.trains_base or (graph.adapter is not None and graph.adapter.trains_head)):
        return 0
    copy = graph.weight_element_size if graph.weight_element_size != 4 else 0
    return (4 + copy) * parameter_counts.head_parameters(graph.shape)


def _tile_weight_casts(graph: ActivationGraph) -> float:
    """Return the bytes of the bf16 cast of the fp32 weights of one tile."""
    if not (graph.autocast and graph.weight_element_size == 4):
        return 0
    return 2 * min(graph.shape.vocab, TILE_VOCABULARY) * graph.shape.hidden


def inference_logits_bytes(shape: Shape, tokens: float, element: int, chunked: bool) -> float:
    """Return the bytes of the logits of a frozen model: of all its rows, or of one tile."""
    if chunked:
        return min(tokens, TILE_TOKENS) * TILE_VOCABULARY * element
    return tokens * shape.vocab * (element + 4)
