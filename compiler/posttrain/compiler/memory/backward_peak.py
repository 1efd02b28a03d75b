"""The temporary memory of the backward pass of one layer, in addition to its saved tensors."""

from posttrain.compiler.facts.parameter_counts import Block
from posttrain.compiler.memory.activation_graph import ActivationGraph
from posttrain.compiler.memory.saved_tensors import SavedTensor, sum_per_token
from posttrain.spec.architectures.model_shapes import Shape


def layer_backward_bytes(graph: ActivationGraph, block: Block, saved: tuple[SavedTensor, ...]) -> float:
    """Return the bytes per token by which the backward pass of a layer exceeds its saved tensors.

    The backward pass frees tensors after their use. The peak is in the MLP, which runs first and is widest,
    in materialized attention, or in a norm after the MLP.
    """
    return max(
        _mlp_backward(graph, block, saved),
        _expert_routing(graph, block),
        _adapter_cast(graph, block),
        _attention_backward(graph, saved),
        _post_norm(graph),
    )


def _mlp_backward(graph: ActivationGraph, block: Block, saved: tuple[SavedTensor, ...]) -> float:
    """Return the gradients of the product and of its two factors, after the product is freed."""
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
    """Return the bytes of the tokens that the experts return: gathered, weighted and summed."""
    shape = graph.shape
    if block.mlp != "experts" or shape.architecture.every_expert:
        return 0
    # the inputs of the experts are saved if they are trained, and still allocated otherwise
    copies = 2 if graph.trains_base else 3
    return (
        graph.residual_element_size * shape.hidden
        + copies * shape.active_experts * graph.compute_element_size * shape.hidden
    )


def _adapter_cast(graph: ActivationGraph, block: Block) -> float:
    """Return the bytes of an fp32 adapter after a bf16 product: both formats exist at the end of the
    recomputed forward pass and at the start of the backward pass."""
    adapter, shape = graph.adapter, graph.shape
    down = next((m for m in block.matrices if m.part == "down" and m.name in graph.targets), None)
    if adapter is None or down is None or adapter.element == graph.compute_element_size:
        return 0
    # in addition: residual, normalized input, both outputs of the product and the next gradient
    around = (4 * graph.residual_element_size + graph.compute_element_size) * shape.hidden
    return around + (graph.compute_element_size + adapter.element) * down.inputs


def _attention_backward(graph: ActivationGraph, saved: tuple[SavedTensor, ...]) -> float:
    """Return the bytes of materialized attention: the gradient of the scores, twice in fp32, after the MLP
    and the bf16 copy of the scores are freed. The forward pass of BLOOM needs as much."""
    if graph.attention not in ("eager", "plain"):
        return 0
    shape = graph.shape
    gone = sum_per_token(tuple(p for p in saved if p.name.startswith("MLP")))
    halved = graph.attention == "eager" and graph.compute_element_size < 4
    halved = halved and shape.architecture.attention != "alibi"
    scores = shape.heads * graph.length * (8 - (graph.compute_element_size if halved else 0))
    return graph.residual_element_size * shape.hidden + scores - gone


def _post_norm(graph: ActivationGraph) -> float:
    """Return the bytes of a norm after the MLP, which runs backward first, in fp32, before anything is
    freed."""
    if graph.shape.architecture.norms not in ("sandwich", "after"):
        return 0
    return (graph.residual_element_size + 12) * graph.shape.hidden


def layer_forward_bytes(shape: Shape, element: int) -> int:
    """Return the peak bytes per token of a layer in inference, where nothing is saved."""
    width, copies = shape.intermediate, 4
    if shape.experts:
        width = shape.computed_experts * shape.expert_width + shape.shared_width
        copies += 2 * shape.computed_experts
    return element * (3 * width + copies * shape.hidden)


def dequantized_bytes(graph: ActivationGraph, block: Block) -> int:
    """Return the bytes of the largest 4-bit matrix, which is dequantized for each product."""
    if graph.adapter is None or not graph.adapter.quantized:
        return 0
    return max(2 * m.inputs * m.outputs for m in block.matrices if m.copies == 1)
