"""The tensors that autograd saves for one layer, derived from the implementation of each model family.

Sizes are bytes per token of the batch. They follow the modules of transformers. An RMSNorm saves its input in
fp32, and the normalized tensor if its weight is trained. A matrix product saves its input if its weight or an
adapter on it is trained. A gated MLP saves gate, activation and up. Fused attention saves query, key, value,
output and one statistic per head.
"""

from typing import NamedTuple

from posttrain.compiler.facts.parameter_counts import Block, Matrix
from posttrain.compiler.memory.activation_graph import ActivationGraph, autocast_copy_bytes, saved_input_bytes

DELTA_RULE_CHUNK = 64  # tokens per chunk of the gated delta rule


class SavedTensor(NamedTuple):
    name: str
    per_token: float
    fixed: int = 0  # independent of the batch: casts of weights


def saved_tensors(graph: ActivationGraph, block: Block) -> tuple[SavedTensor, ...]:
    """Return the tensors that one layer of this kind saves in the forward pass for the backward pass."""
    return (
        SavedTensor("norms", _norms_bytes(graph)),
        SavedTensor("dropout", 2 * dropout_bytes(graph)),
        *_attention(graph, block),
        *_mlp(graph, block),
    )


def sum_per_token(parts: tuple[SavedTensor, ...]) -> float:
    return sum(p.per_token for p in parts)


def sum_fixed(parts: tuple[SavedTensor, ...]) -> int:
    return sum(p.fixed for p in parts)


def dropout_bytes(graph: ActivationGraph) -> int:
    """Return the mask bytes per token of one dropout of the hidden states."""
    return graph.shape.hidden if graph.shape.architecture.dropout else 0


def norm_bytes(graph: ActivationGraph, width: int, stream: int, heads: int = 1) -> float:
    """Return the saved bytes per token of one norm over `width` elements in `heads` groups."""
    kind = graph.shape.architecture.norm
    if kind == "layer":
        wide = 4 if graph.autocast else stream
        return wide * width + 8 * heads
    learned = graph.trains_base * width
    normalised = 4 * learned if kind == "rms_wide" else stream * learned
    return 4 * width + 4 * heads + normalised


def norm_output_element_size(graph: ActivationGraph) -> int:
    """Return the bytes per element of the output of a norm: autocast runs LayerNorm in fp32."""
    wide = graph.autocast and graph.shape.architecture.norm == "layer"
    return 4 if wide else graph.residual_element_size


def _norms_bytes(graph: ActivationGraph) -> float:
    one = norm_bytes(graph, graph.shape.hidden, graph.residual_element_size)
    if graph.shape.architecture.norms == "shared_input":
        shared = not (graph.autocast and graph.residual_element_size == 2)
        return one + 8 if shared else 2 * one
    return one * {"sandwich": 4, "single": 1}.get(graph.shape.architecture.norms, 2)


def _attention(graph: ActivationGraph, block: Block) -> tuple[SavedTensor, ...]:
    projections = _matrices_of_part(block, "query_key_value") + _matrices_of_part(block, "linear_attention")
    out = _matrices_of_part(block, "attention_out")
    before = graph.shape.architecture.norms != "after"
    element = norm_output_element_size(graph) if before else graph.residual_element_size
    # without a norm before it, the input is the residual stream, which the norms do not save
    inputs = saved_input_bytes(graph, projections, element, already_saved=False)
    mixed = _linear_attention_bytes(graph) if block.mixer == "linear" else _attention_bytes(graph, block)
    into_out = saved_input_bytes(
        graph, out, graph.compute_element_size, already_saved=_attention_output_saved(graph, block)
    )
    return (
        SavedTensor("projections", inputs, autocast_copy_bytes(graph, projections)),
        SavedTensor("attention", mixed),
        SavedTensor("attention output", into_out, autocast_copy_bytes(graph, out)),
    )


def _attention_output_saved(graph: ActivationGraph, block: Block) -> bool:
    """Return whether the output projection reads a tensor that attention already saves. Fused attention
    saves its output, but with concatenated rotary embeddings the flash kernel returns another layout."""
    if block.mixer == "linear" or graph.attention in ("eager", "plain"):
        return False
    return graph.shape.architecture.rope != "concatenated" or needs_attention_mask(graph, block)


def needs_attention_mask(graph: ActivationGraph, block: Block) -> bool:
    """Return whether SDPA materializes a mask: for padded rows, or for a window shorter than the row."""
    window = graph.shape.window
    windowed = block.mixer == "window" and 0 < window <= graph.length
    return graph.attention == "masked" or (graph.attention == "sdpa" and (graph.padded or windowed))


def _attention_bytes(graph: ActivationGraph, block: Block) -> float:
    shape, e = graph.shape, graph.compute_element_size
    q, kv = shape.query_width, shape.kv_width
    extra = _qk_norm_bytes(graph) + _query_gate_bytes(graph)
    scores = shape.heads * graph.length
    if graph.attention == "plain":
        return extra + 3 * 4 * q + 4 * scores
    if graph.attention == "eager":
        capped = e * scores if shape.architecture.softcap else 0
        half = e * scores if e < 4 else 0
        return extra + 3 * e * q + 4 * scores + half + capped
    statistics = 4 * shape.heads
    mask = e * graph.length if needs_attention_mask(graph, block) else 0
    if graph.attention == "masked_once" and graph.autocast and graph.residual_element_size == 4:
        mask = e * scores  # the single mask of the model is cast for each layer
    # a single shared head is expanded without a copy
    copied = (
        needs_attention_mask(graph, block) and 1 < shape.kv_heads < shape.heads
    ) or graph.attention == "masked"
    keys_values = 2 * e * q if copied else e * (kv + _value_elements(graph))
    return extra + e * q + keys_values + e * q + statistics + mask


def _value_elements(graph: ActivationGraph) -> int:
    """Return the elements that the value tensor keeps alive. A view into a fused projection keeps the
    whole projection, in addition to the rotated copies. Without rotary embeddings query and key are views
    of it too."""
    shape = graph.shape
    if shape.architecture.names == "split" or shape.architecture.name == "falcon_grouped":
        return shape.kv_width
    if shape.architecture.rope == "none":
        return shape.kv_width
    return shape.query_width + 2 * shape.kv_width


def _qk_norm_bytes(graph: ActivationGraph) -> float:
    shape, kind = graph.shape, graph.shape.architecture.qk_norm
    q, kv = shape.query_width, shape.kv_width
    if kind == "none":
        return 0
    if kind == "plain":
        return 4 * (q + kv)
    groups = (shape.heads, shape.kv_heads) if kind == "head" else (1, 1)
    return norm_bytes(graph, q, graph.compute_element_size, groups[0]) + norm_bytes(
        graph, kv, graph.compute_element_size, groups[1]
    )


def _query_gate_bytes(graph: ActivationGraph) -> float:
    """Return the bytes of the sigmoid of the query gate and of the output that it multiplies."""
    return (
        2 * graph.compute_element_size * graph.shape.query_width
        if graph.shape.architecture.gated_query
        else 0
    )


def _linear_attention_bytes(graph: ActivationGraph) -> float:
    """Return the bytes of the gated delta rule, which transformers computes in fp32 in chunks of 64
    tokens: tensors as wide as the values, tensors per chunk, and one state per chunk. The kernels of `fla`
    would save a fifth of it, but the pinned versions do not include `fla`."""
    shape, e = graph.shape, graph.compute_element_size
    heads, dim = shape.linear_values, shape.linear_dim
    keys, values = shape.linear_keys * dim, heads * dim
    chunks, states = heads * DELTA_RULE_CHUNK, heads * dim * dim // DELTA_RULE_CHUNK
    convolved = 2 * e * (2 * keys + values)
    written_out = 4 * (14 * values + 5 * chunks + states + 9 * heads)
    # autocast multiplies bf16 copies and saves the sums in fp32
    cast = 5.5 * values - 6 * chunks + 4 * states if graph.autocast else 0
    return convolved + written_out + cast + 2 * e * values


def _mlp(graph: ActivationGraph, block: Block) -> tuple[SavedTensor, ...]:
    if block.mlp == "experts":
        return _experts(graph, block)
    into, down = _matrices_of_part(block, "gate_up"), _matrices_of_part(block, "down")
    before = graph.shape.architecture.norms != "after"
    shares = graph.shape.architecture.norms == "single"
    element = norm_output_element_size(graph) if before else graph.residual_element_size
    width = down[0].inputs
    return (
        SavedTensor(
            "MLP input",
            saved_input_bytes(graph, into, element, already_saved=shares),
            autocast_copy_bytes(graph, into),
        ),
        SavedTensor("MLP", activation_bytes(graph, width)),
        SavedTensor(
            "MLP output",
            saved_input_bytes(graph, down, graph.compute_element_size, already_saved=False),
            autocast_copy_bytes(graph, down),
        ),
    )


def activation_bytes(graph: ActivationGraph, width: int) -> float:
    """Return what the activation function saves: its input, and with a gate both factors of the product."""
    e = graph.compute_element_size
    if graph.shape.architecture.gated:
        return 3 * e * width
    if graph.shape.architecture.activation == "gelu_steps":
        # computed in separate operations; autocast runs the power and the following operations in fp32
        return (14 if graph.autocast else 4 * e) * width
    return e * width


def _experts(graph: ActivationGraph, block: Block) -> tuple[SavedTensor, ...]:
    """Return the tensors of the experts. Each token is copied to its experts, which save what a dense MLP
    saves."""
    shape, e = graph.shape, graph.compute_element_size
    copies, width = shape.computed_experts, shape.expert_width
    # inputs of products are saved only if the experts are trained; the routing weight is always trained
    routed = copies * (e * shape.hidden + 3 * e * width + 32)
    routed += copies * (e * shape.hidden + e * width) if graph.trains_base else 0
    router = 4 * shape.experts + (norm_output_element_size(graph) * shape.hidden if graph.trains_base else 0)
    shared = (4 if graph.trains_base else 3) * e * shape.shared_width
    return (
        SavedTensor("router", router),
        SavedTensor(
            "experts",
            routed,
            autocast_copy_bytes(
                graph, _matrices_of_part(block, "gate_up") + _matrices_of_part(block, "down")
            ),
        ),
        SavedTensor("shared expert", shared),
    )


def _matrices_of_part(block: Block, part: str) -> tuple[Matrix, ...]:
    return tuple(m for m in block.matrices if m.part == part)
