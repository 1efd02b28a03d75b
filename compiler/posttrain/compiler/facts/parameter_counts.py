"""The parameter counts of a shape, in closed form: every matrix by name, and sums over them.

The names are those of the modules in transformers, to check the targets of adapters. Each matrix
has a part (attention, MLP, experts, head), because quantization and sharding treat the parts differently.
"""

import functools
from collections.abc import Iterable
from typing import NamedTuple

from posttrain.spec.architectures.model_shapes import Architecture, Shape

CONV_KERNEL_SIZE = 4  # taps of the short convolution before linear attention


class Matrix(NamedTuple):
    """One weight matrix of a layer. `copies`: the number per layer (experts)."""

    name: str
    inputs: int
    outputs: int
    part: str  # query_key_value | attention_out | gate_up | down | router | linear_attention
    bias: bool = False
    copies: int = 1

    @property
    def elements(self) -> int:
        return self.copies * (self.inputs * self.outputs + (self.outputs if self.bias else 0))


class Block(NamedTuple):
    """Layers of the same kind: their number, token mixer, MLP and weights."""

    layers: int
    mixer: str  # full | window | linear
    mlp: str  # dense | experts
    matrices: tuple[Matrix, ...]
    vectors: int  # norm weights and other vectors

    @property
    def elements(self) -> int:
        return sum(m.elements for m in self.matrices) + self.vectors


@functools.lru_cache(maxsize=256)
def layer_blocks(shape: Shape) -> tuple[Block, ...]:
    """Return the layers grouped by kind. Their order does not matter for any sum."""
    counts: dict[tuple[str, str], int] = {}
    for layer in range(shape.layers):
        kind = (_mixer_kind(shape, layer), _mlp_kind(shape, layer))
        counts[kind] = counts.get(kind, 0) + 1
    return tuple(_block(shape, count, *kind) for kind, count in counts.items())


def layer_matrices(shape: Shape, layer: int) -> tuple[Matrix, ...]:
    """Return the matrices of one layer."""
    return _block(shape, 1, _mixer_kind(shape, layer), _mlp_kind(shape, layer)).matrices


@functools.lru_cache(maxsize=256)
def count_parameters(shape: Shape) -> int:
    """Return the number of all parameters as in transformers: tied embeddings count once."""
    layers = sum(b.layers * b.elements for b in layer_blocks(shape))
    top = head_parameters(shape) - (shape.vocab * shape.hidden if shape.tied else 0)
    return layers + embedding_parameters(shape) + final_norm_parameters(shape) + top


def active_parameters(shape: Shape) -> int:
    """Return the number of parameters that one token passes through: all, unless there are experts."""
    return _parameters_with_experts(shape, shape.active_experts)


def computed_parameters(shape: Shape) -> int:
    """Return the number of parameters that transformers computes with for one token, which can include
    inactive experts."""
    return _parameters_with_experts(shape, shape.computed_experts)


def _parameters_with_experts(shape: Shape, chosen: int) -> int:
    idle = sum(
        b.layers * (shape.experts - chosen) * (m.elements // m.copies)
        for b in layer_blocks(shape)
        for m in b.matrices
        if m.copies > 1
    )
    return count_parameters(shape) - idle


def embedding_parameters(shape: Shape) -> int:
    learned = shape.positions * shape.hidden if shape.architecture.positions == "learned" else 0
    # BLOOM normalizes its embeddings
    normed = 2 * shape.hidden if shape.architecture.names == "bloom" else 0
    return shape.vocab * shape.hidden + learned + normed


def head_parameters(shape: Shape) -> int:
    bias = shape.vocab if "head" in shape.architecture.bias else 0
    return shape.vocab * shape.hidden + bias


def final_norm_parameters(shape: Shape) -> int:
    return _norm_parameters(shape.architecture, shape.hidden)


def linear_module_names(shape: Shape) -> tuple[str, ...]:
    """Return the modules that an adapter supports. Experts are not separate modules."""
    found = (m.name for b in layer_blocks(shape) for m in b.matrices if is_adaptable(m))
    return tuple(dict.fromkeys(found))


def adapter_parameters(shape: Shape, targets: Iterable[str], rank: int) -> int:
    """Return the number of parameters of a LoRA adapter of this rank on these modules."""
    adapted = frozenset(targets)
    return sum(
        b.layers * rank * (m.inputs + m.outputs)
        for b in layer_blocks(shape)
        for m in b.matrices
        if is_adaptable(m) and m.name in adapted
    )


def quantizable_parameters(shape: Shape) -> int:
    """Return the elements that 4-bit loading converts: the matrices of linear layers, but not embeddings,
    head, norms, biases, or experts in one three-dimensional tensor."""
    return sum(
        b.layers * m.inputs * m.outputs for b in layer_blocks(shape) for m in b.matrices if is_adaptable(m)
    )


def is_adaptable(matrix: Matrix) -> bool:
    """Whether a matrix is a linear module of its own, which an adapter can target."""
    return matrix.copies == 1 and matrix.part != "router"


def _mixer_kind(shape: Shape, layer: int) -> str:
    if shape.full_every > 1 and (layer + 1) % shape.full_every:
        return "linear" if shape.linear_keys else "window"
    return "window" if shape.window and shape.full_every == 1 else "full"


def _mlp_kind(shape: Shape, layer: int) -> str:
    return "experts" if shape.experts and not (layer + 1) % shape.experts_every else "dense"


def _block(shape: Shape, count: int, mixer: str, mlp: str) -> Block:
    mixing = _linear_attention(shape) if mixer == "linear" else _attention(shape)
    after = _experts(shape) if mlp == "experts" else _dense(shape)
    vectors = _layer_norm_parameters(shape)
    vectors += _linear_vectors(shape) if mixer == "linear" else _qk_norm_parameters(shape)
    return Block(count, mixer, mlp, (*mixing, *after), vectors)


def _attention(shape: Shape) -> tuple[Matrix, ...]:
    arch, h, q, kv = shape.architecture, shape.hidden, shape.query_width, shape.kv_width
    bias, out_bias = "qkv" in arch.bias, "out" in arch.bias
    if arch.names == "split":
        gated = 2 * q if arch.gated_query else q
        return (
            Matrix("q_proj", h, gated, "query_key_value", bias),
            Matrix("k_proj", h, kv, "query_key_value", bias),
            Matrix("v_proj", h, kv, "query_key_value", bias),
            Matrix("o_proj", q, h, "attention_out", out_bias),
        )
    fused = {"phi3": "qkv_proj", "gpt2": "c_attn"}.get(arch.names, "query_key_value")
    out = {"phi3": "o_proj", "gpt2": "c_proj"}.get(arch.names, "dense")
    return (
        Matrix(fused, h, q + 2 * kv, "query_key_value", bias),
        Matrix(out, q, h, "attention_out", out_bias),
    )


def _linear_attention(shape: Shape) -> tuple[Matrix, ...]:
    h = shape.hidden
    keys, values = shape.linear_keys * shape.linear_dim, shape.linear_values * shape.linear_dim
    return (
        Matrix("in_proj_qkv", h, 2 * keys + values, "linear_attention"),
        Matrix("in_proj_z", h, values, "linear_attention"),
        Matrix("in_proj_b", h, shape.linear_values, "linear_attention"),
        Matrix("in_proj_a", h, shape.linear_values, "linear_attention"),
        Matrix("out_proj", values, h, "attention_out"),
    )


def _linear_vectors(shape: Shape) -> int:
    """Return the parameters of the short convolution, the decay and its bias per head, and the output
    norm."""
    keys, values = shape.linear_keys * shape.linear_dim, shape.linear_values * shape.linear_dim
    return CONV_KERNEL_SIZE * (2 * keys + values) + 2 * shape.linear_values + shape.linear_dim


def _dense(shape: Shape) -> tuple[Matrix, ...]:
    arch, h, f = shape.architecture, shape.hidden, shape.intermediate
    bias = "mlp" in arch.bias
    if arch.names == "split":
        return _gated(h, f)
    if arch.names == "phi3":
        return (Matrix("gate_up_proj", h, 2 * f, "gate_up"), Matrix("down_proj", f, h, "down"))
    up, down = ("c_fc", "c_proj") if arch.names == "gpt2" else ("dense_h_to_4h", "dense_4h_to_h")
    return (Matrix(up, h, f, "gate_up", bias), Matrix(down, f, h, "down", bias))


def _gated(hidden: int, width: int) -> tuple[Matrix, ...]:
    return (
        Matrix("gate_proj", hidden, width, "gate_up"),
        Matrix("up_proj", hidden, width, "gate_up"),
        Matrix("down_proj", width, hidden, "down"),
    )


def _experts(shape: Shape) -> tuple[Matrix, ...]:
    h, f, many = shape.hidden, shape.expert_width, shape.experts
    shared = _gated(h, shape.shared_width) if shape.shared_width else ()
    return (
        Matrix("router", h, many, "router"),
        Matrix("experts.gate_up_proj", h, 2 * f, "gate_up", copies=many),
        Matrix("experts.down_proj", f, h, "down", copies=many),
        *shared,
    )


def _norm_parameters(arch: Architecture, width: int) -> int:
    return 2 * width if arch.norm == "layer" else width


def _layer_norm_parameters(shape: Shape) -> int:
    each = {"sandwich": 4, "single": 1}.get(shape.architecture.norms, 2)
    return each * _norm_parameters(shape.architecture, shape.hidden)


def _qk_norm_parameters(shape: Shape) -> int:
    kind = shape.architecture.qk_norm
    if kind == "head":
        return 2 * shape.head_dim
    return shape.query_width + shape.kv_width if kind == "width" else 0
