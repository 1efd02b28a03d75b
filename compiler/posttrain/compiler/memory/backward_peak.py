"""What exists only for a moment while one layer runs backward, beside what its forward kept."""

from posttrain.compiler.facts.model_shapes import Shape
from posttrain.compiler.facts.parameter_counts import Block
from posttrain.compiler.memory.activation_graph import ActivationGraph
from posttrain.compiler.memory.saved_tensors import SavedTensor, sum_per_token


def layer_backward_bytes(graph: ActivationGraph, block: Block, saved: tuple[SavedTensor, ...]) -> float:
    """Bytes per token by which a layer's backward exceeds what the layer kept.

    Backward frees what it has used: it is the MLP, which comes first and is widest, that decides,
    or attention where it is written out, or a norm that stands behind the MLP.
    """
    return max(
        _mlp_backward(graph, block, saved),
        _expert_routing(graph, block),
        _adapter_cast(graph, block),
        _attention_backward(graph, saved),
        _post_norm(graph),
    )


def _mlp_backward(graph: ActivationGraph, block: Block, saved: tuple[SavedTensor, ...]) -> float:
    """The gradients of the product and of its two factors, when the product is gone."""
    shape, e = graph.shape, graph.compute_element_size
    width = shape.intermediate
    if block.mlp == "experts":
        width = shape.computed_experts * shape.expert_width + shape.shared_width
    gone = sum(p.per_token for p in saved if p.name == "MLP output")
    factors = 3 if shape.architecture.gated else 2
    if shape.architecture.activation == "gelu_steps":
        factors, e = 3, 4 if graph.autocast else e
    return graph.residual_element_size * shape.hidden + factors * e * width - gone


def _expert_routing(graph: ActivationGraph, block: Block) -> float:
    """Tokens on their way from the experts back into their order: gathered, weighed, summed."""
    shape = graph.shape
    if block.mlp != "experts" or shape.architecture.every_expert:
        return 0
    # what entered the experts is kept if they learn, and still there if they do not
    copies = 2 if graph.trains_base else 3
    return (
        graph.residual_element_size * shape.hidden
        + copies * shape.active_experts * graph.compute_element_size * shape.hidden
    )


def _adapter_cast(graph: ActivationGraph, block: Block) -> float:
    """An adapter in fp32 behind a bf16 product: both formats stand side by side, twice in a row,
    as the last thing of the recomputed forward and the first of the backward."""
    adapter, shape = graph.adapter, graph.shape
    down = next((m for m in block.matrices if m.part == "down" and m.name in graph.targets), None)
    if adapter is None or down is None or adapter.element == graph.compute_element_size:
        return 0
    # beside them: residual, normed input, both outputs of the product and the gradient to come
    around = (4 * graph.residual_element_size + graph.compute_element_size) * shape.hidden
    return around + (graph.compute_element_size + adapter.element) * down.inputs


def _attention_backward(graph: ActivationGraph, saved: tuple[SavedTensor, ...]) -> float:
    """Attention written out: the gradient of the scores, twice in fp32, when the MLP is gone
    and so is the bf16 copy of the scores (BLOOM's forward holds as much as that)."""
    if graph.attention not in ("eager", "plain"):
        return 0
    shape = graph.shape
    gone = sum_per_token(tuple(p for p in saved if p.name.startswith("MLP")))
    halved = graph.attention == "eager" and graph.compute_element_size < 4
    halved = halved and shape.architecture.attention != "alibi"
    scores = shape.heads * graph.length * (8 - (graph.compute_element_size if halved else 0))
    return graph.residual_element_size * shape.hidden + scores - gone


def _post_norm(graph: ActivationGraph) -> float:
    """A norm after the MLP runs backward first, in fp32, while everything is still kept."""
    if graph.shape.architecture.norms not in ("sandwich", "after"):
        return 0
    return (graph.residual_element_size + 12) * graph.shape.hidden


def layer_forward_bytes(shape: Shape, element: int) -> int:
    """Bytes per token of the widest moment of a layer that keeps nothing: generating, scoring."""
    width, copies = shape.intermediate, 4
    if shape.experts:
        width = shape.computed_experts * shape.expert_width + shape.shared_width
        copies += 2 * shape.computed_experts
    return element * (3 * width + copies * shape.hidden)


def dequantized_bytes(graph: ActivationGraph, block: Block) -> int:
    """A 4-bit matrix is written out in full for each product."""
    if graph.adapter is None or not graph.adapter.quantized:
        return 0
    return max(2 * m.inputs * m.outputs for m in block.matrices if m.copies == 1)
