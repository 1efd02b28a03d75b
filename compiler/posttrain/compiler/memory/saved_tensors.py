"""What autograd keeps of one layer, tensor by tensor, derived from how each family is written.

The sizes are bytes per token of the batch. They follow transformers' own modules: an RMSNorm
keeps its input in fp32 and, if its weight learns, the normalised tensor; a matrix product keeps
its input if its weight (or an adapter on it) learns; a gated MLP keeps gate, activation and up;
fused attention keeps query, key, value, output and one statistic per head.
"""

from typing import NamedTuple

from posttrain.compiler.facts.parameter_counts import Block, Matrix
from posttrain.compiler.memory.activation_graph import ActivationGraph, autocast_copy_bytes, saved_input_bytes

DELTA_RULE_CHUNK = 64  # tokens that the gated delta rule handles at once


class SavedTensor(NamedTuple):
    name: str
    per_token: float
    fixed: int = 0  # whatever the batch: casts of weights


def saved_tensors(graph: ActivationGraph, block: Block) -> tuple[SavedTensor, ...]:
    """What one layer of this kind keeps from its forward for its backward."""
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
    """One byte for each element that a dropout of the hidden states may zero."""
    return graph.shape.hidden if graph.shape.architecture.dropout else 0


def norm_bytes(graph: ActivationGraph, width: int, stream: int, heads: int = 1) -> float:
    """One norm over `width` elements a token, in `heads` groups."""
    kind = graph.shape.architecture.norm
    if kind == "layer":
        wide = 4 if graph.autocast else stream
        return wide * width + 8 * heads
    learned = graph.trains_base * width
    normalised = 4 * learned if kind == "rms_wide" else stream * learned
    return 4 * width + 4 * heads + normalised


def norm_output_element_size(graph: ActivationGraph) -> int:
    """Bytes of an element that leaves a norm: autocast runs LayerNorm in fp32."""
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
    # without a norm in front the input is the residual stream, which the norms keep nothing of
    inputs = saved_input_bytes(graph, projections, element, kept=False)
    mixed = _linear_attention_bytes(graph) if block.mixer == "linear" else _attention_bytes(graph, block)
    into_out = saved_input_bytes(
        graph, out, graph.compute_element_size, kept=_attention_output_saved(graph, block)
    )
    return (
        SavedTensor("projections", inputs, autocast_copy_bytes(graph, projections)),
        SavedTensor("attention", mixed),
        SavedTensor("attention output", into_out, autocast_copy_bytes(graph, out)),
    )


def _attention_output_saved(graph: ActivationGraph, block: Block) -> bool:
    """Fused attention keeps its output, and the output projection reads the same tensor, unless
    rotary embeddings were concatenated: the flash kernel then leaves the heads out of place."""
    if block.mixer == "linear" or graph.attention in ("eager", "plain"):
        return False
    return graph.shape.architecture.rope != "concatenated" or needs_attention_mask(graph, block)


def needs_attention_mask(graph: ActivationGraph, block: Block) -> bool:
    """SDPA needs a mask in memory where rows are padded or a window is shorter than the row."""
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
        mask = e * scores  # the model's one mask is cast for each layer
    # a single shared head is repeated without copying it
    copied = (
        needs_attention_mask(graph, block) and 1 < shape.kv_heads < shape.heads
    ) or graph.attention == "masked"
    keys_values = 2 * e * q if copied else e * (kv + _value_elements(graph))
    return extra + e * q + keys_values + e * q + statistics + mask


def _value_elements(graph: ActivationGraph) -> int:
    """Elements kept alive by the value: a view into one fused projection keeps all of it,
    beside the rotated copies. Without rotary embeddings query and key are views of it too."""
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
    """The sigmoid of a gated query's gate, and the output that it multiplies."""
    return (
        2 * graph.compute_element_size * graph.shape.query_width
        if graph.shape.architecture.gated_query
        else 0
    )


def _linear_attention_bytes(graph: ActivationGraph) -> float:
    """The gated delta rule as transformers writes it out in fp32, in chunks of 64 tokens: tensors
    as wide as the values, chunk by chunk ones, and a state per chunk. Kernels of the `fla` package
    would keep a fifth of it; the pinned stack has none."""
    shape, e = graph.shape, graph.compute_element_size
    heads, dim = shape.linear_values, shape.linear_dim
    keys, values = shape.linear_keys * dim, heads * dim
    chunks, states = heads * DELTA_RULE_CHUNK, heads * dim * dim // DELTA_RULE_CHUNK
    convolved = 2 * e * (2 * keys + values)
    written_out = 4 * (14 * values + 5 * chunks + states + 9 * heads)
    # autocast multiplies bf16 copies, and keeps the sums that it adds in fp32
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
            saved_input_bytes(graph, into, element, kept=shares),
            autocast_copy_bytes(graph, into),
        ),
        SavedTensor("MLP", activation_bytes(graph, width)),
        SavedTensor(
            "MLP output",
            saved_input_bytes(graph, down, graph.compute_element_size, kept=False),
            autocast_copy_bytes(graph, down),
        ),
    )


def activation_bytes(graph: ActivationGraph, width: int) -> float:
    """What the non-linearity keeps: its input, and with a gate both factors of the product."""
    e = graph.compute_element_size
    if graph.shape.architecture.gated:
        return 3 * e * width
    if graph.shape.architecture.activation == "gelu_steps":
        # written out in steps; autocast runs the power, and what follows from it, in fp32
        return (14 if graph.autocast else 4 * e) * width
    return e * width


def _experts(graph: ActivationGraph, block: Block) -> tuple[SavedTensor, ...]:
    """Each token is copied to its experts, whose products are kept as a dense MLP's would be."""
    shape, e = graph.shape, graph.compute_element_size
    copies, width = shape.computed_experts, shape.expert_width
    # what enters a product is kept only if the experts learn; its routing weight always does
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
