"""The head and the loss: the one place where a token meets the whole vocabulary.

Chunked as TRL 1.16 does it, the logits exist in tiles only, and the head's gradient is gathered
in fp32. In full, the logits, their fp32 copy and its logarithms stand side by side.
"""

from posttrain.compiler.facts import parameter_counts
from posttrain.compiler.facts.model_shapes import Shape
from posttrain.compiler.memory.activation_graph import ActivationGraph
from posttrain.compiler.memory.workload import Workload

TILE_TOKENS = 4096
TILE_VOCABULARY = 32768


def logits_tile_bytes(graph: ActivationGraph, tokens: float) -> float:
    """TRL's tile is as wide for a vocabulary of a hundred as for one of a hundred thousand."""
    return min(tokens, TILE_TOKENS) * TILE_VOCABULARY * graph.compute_element_size


def saved_loss_bytes(workload: Workload, graph: ActivationGraph) -> float:
    """What head and loss keep from the forward for the backward, beside the final norm."""
    tokens, shape = workload.tokens, graph.shape
    if workload.loss == "chunked":
        # the hidden states without the last position are a copy; eight statistics a token
        return tokens * (graph.residual_element_size * shape.hidden + 36)
    if workload.loss == "scores":
        return tokens * graph.residual_element_size * shape.hidden
    normed = 2 if graph.autocast else graph.residual_element_size
    cast = (
        2 * parameter_counts.head_parameters(shape)
        if graph.autocast and graph.weight_element_size == 4
        else 0
    )
    capped = graph.compute_element_size * shape.vocab if shape.architecture.softcap else 0
    return tokens * (normed * shape.hidden + 4 * shape.vocab + capped) + cast


def loss_forward_bytes(workload: Workload, graph: ActivationGraph) -> float:
    """The largest the loss gets while it runs forward, beside what it keeps."""
    tokens, vocab = workload.tokens, graph.shape.vocab
    if workload.loss == "scores":
        return 0
    if workload.loss == "chunked":
        return logits_tile_bytes(graph, tokens) + _tile_weight_casts(graph)
    return tokens * vocab * (graph.compute_element_size + 4)


def loss_backward_bytes(workload: Workload, graph: ActivationGraph) -> float:
    """The largest the loss gets while it runs backward, beside what it kept."""
    tokens, shape = workload.tokens, graph.shape
    if workload.loss == "scores":
        return 0
    if workload.loss == "full":
        return 8 * tokens * shape.vocab
    hidden = (
        tokens * shape.hidden * (4 + (graph.residual_element_size if graph.residual_element_size != 4 else 0))
    )
    # the cast of one tile's weights is still there when the next one is made
    return (
        hidden
        + _fp32_head_gradient(workload, graph)
        + logits_tile_bytes(graph, tokens)
        + 2 * _tile_weight_casts(graph)
    )


def _fp32_head_gradient(workload: Workload, graph: ActivationGraph) -> float:
    """The head's gradient in fp32, and its copy in the weights' format."""
    if not graph.trains_base:
        return 0
    copy = graph.weight_element_size if graph.weight_element_size != 4 else 0
    return (4 + copy) * parameter_counts.head_parameters(graph.shape)


def _tile_weight_casts(graph: ActivationGraph) -> float:
    """fp32 weights are cast tile by tile."""
    if not (graph.autocast and graph.weight_element_size == 4):
        return 0
    return 2 * min(graph.shape.vocab, TILE_VOCABULARY) * graph.shape.hidden


def inference_logits_bytes(shape: Shape, tokens: float, element: int, chunked: bool) -> float:
    """A frozen model's loss: logits of its rows, or one tile of them."""
    if chunked:
        return min(tokens, TILE_TOKENS) * TILE_VOCABULARY * element
    return tokens * shape.vocab * (element + 4)
