"""The parameters of a shape by their names in transformers, for patterns that select some of them.

The names of architectures with experts or linear attention are not known here.
"""

import functools
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from posttrain.compiler.facts import parameter_counts
from posttrain.compiler.facts.parameter_counts import Matrix
from posttrain.spec.architectures.model_shapes import Architecture, Shape


class Parameter(NamedTuple):
    name: str
    elements: int

    @property
    def module(self) -> str:
        return self.name.rpartition(".")[0]


class LinearModule(NamedTuple):
    """A linear module of one layer, which an adapter can target."""

    name: str
    layer: int
    matrix: Matrix


class _Naming(NamedTuple):
    embedding: str
    layer: str
    attention: str
    final_norm: str
    head: str = "lm_head"


_NAMINGS = {
    "split": _Naming("model.embed_tokens", "model.layers", "self_attn", "model.norm"),
    "phi3": _Naming("model.embed_tokens", "model.layers", "self_attn", "model.norm"),
    "gpt2": _Naming("transformer.wte", "transformer.h", "attn", "transformer.ln_f"),
    "neox": _Naming("gpt_neox.embed_in", "gpt_neox.layers", "attention", "gpt_neox.final_layer_norm"),
    "bloom": _Naming("transformer.word_embeddings", "transformer.h", "self_attention", "transformer.ln_f"),
    "falcon": _Naming("transformer.word_embeddings", "transformer.h", "self_attention", "transformer.ln_f"),
}
_IN_ATTENTION = ("query_key_value", "attention_out")
_SANDWICH = (
    "input_layernorm",
    "post_attention_layernorm",
    "pre_feedforward_layernorm",
    "post_feedforward_layernorm",
)


@functools.lru_cache(maxsize=64)
def named_parameters(shape: Shape) -> tuple[Parameter, ...] | None:
    """Return all parameters of the model; None if their names are not known."""
    if shape.experts or shape.linear_keys:
        return None
    return tuple(_parameters(shape))


def _parameters(shape: Shape) -> Iterator[Parameter]:
    arch, h = shape.architecture, shape.hidden
    naming = _NAMINGS[arch.names]
    yield Parameter(f"{naming.embedding}.weight", shape.vocab * h)
    if arch.positions == "learned":
        yield Parameter("transformer.wpe.weight", shape.positions * h)
    if arch.names == "bloom":
        yield from _norm("transformer.word_embeddings_layernorm", arch, h)
    for module in linear_modules(shape):
        yield Parameter(f"{module.name}.weight", module.matrix.inputs * module.matrix.outputs)
        if module.matrix.bias:
            yield Parameter(f"{module.name}.bias", module.matrix.outputs)
    for layer in range(shape.layers):
        for name in _layer_norms(arch):
            yield from _norm(f"{naming.layer}.{layer}.{name}", arch, h)
        yield from _qk_norms(shape, f"{naming.layer}.{layer}.{naming.attention}")
    yield from _norm(naming.final_norm, arch, h)
    if not shape.tied:
        yield Parameter(f"{naming.head}.weight", shape.vocab * h)
    if "head" in arch.bias:
        yield Parameter(f"{naming.head}.bias", shape.vocab)


def _norm(name: str, arch: Architecture, width: int) -> Iterator[Parameter]:
    yield Parameter(f"{name}.weight", width)
    if arch.norm == "layer":
        yield Parameter(f"{name}.bias", width)


def _layer_norms(arch: Architecture) -> tuple[str, ...]:
    if arch.names == "gpt2":
        return ("ln_1", "ln_2")
    if arch.names == "falcon" and arch.norms == "shared_input":
        return ("ln_attn", "ln_mlp")
    return {"sandwich": _SANDWICH, "after": (_SANDWICH[1], _SANDWICH[3]), "single": _SANDWICH[:1]}.get(
        arch.norms, _SANDWICH[:2]
    )


def _qk_norms(shape: Shape, attention: str) -> Iterator[Parameter]:
    kind = shape.architecture.qk_norm
    if kind in ("head", "width"):
        widths = (shape.head_dim,) * 2 if kind == "head" else (shape.query_width, shape.kv_width)
        yield Parameter(f"{attention}.q_norm.weight", widths[0])
        yield Parameter(f"{attention}.k_norm.weight", widths[1])


@functools.lru_cache(maxsize=64)
def linear_modules(shape: Shape) -> tuple[LinearModule, ...]:
    """Return the linear modules of all layers, without experts and routers."""
    naming = _NAMINGS[shape.architecture.names]
    found: list[LinearModule] = []
    for layer in range(shape.layers):
        for matrix in parameter_counts.layer_matrices(shape, layer):
            if not parameter_counts.is_adaptable(matrix):
                continue
            part = naming.attention if matrix.part in _IN_ATTENTION else "mlp"
            part = "linear_attn" if matrix.part == "linear_attention" or matrix.name == "out_proj" else part
            found.append(LinearModule(f"{naming.layer}.{layer}.{part}.{matrix.name}", layer, matrix))
    return tuple(found)


def embedding_modules(shape: Shape) -> tuple[str, str]:
    """Return the names of the modules of the input and the output embeddings."""
    naming = _NAMINGS[shape.architecture.names]
    return naming.embedding, naming.head


def matches_pattern(name: str, pattern: str) -> bool:
    """Whether a pattern of `trainable` or `freeze` matches the name of a parameter."""
    return fnmatchcase(name, pattern)
