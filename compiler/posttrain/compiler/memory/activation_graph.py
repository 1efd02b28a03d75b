"""How a forward runs, as far as it decides what autograd keeps: number formats, what learns,
which attention. One stage's workload makes one graph; every term of the activations reads it."""

from dataclasses import replace
from typing import NamedTuple

from posttrain.compiler.facts.model_shapes import Shape
from posttrain.compiler.facts.parameter_counts import Matrix
from posttrain.compiler.memory.workload import LoraAdapter, Workload


class ActivationGraph(NamedTuple):
    shape: Shape
    length: int  # over which a token can attend
    weight_element_size: int  # bytes of an element of the base weights in the forward
    residual_element_size: int  # bytes of an element of the residual stream: the embeddings' format
    compute_element_size: int  # bytes of an element that a matrix product gives
    autocast: bool
    trains_base: bool  # the base weights learn; else only the adapter does
    adapter: LoraAdapter | None
    targets: frozenset[str]
    attention: str
    padded: bool


def build_activation_graph(workload: Workload, shape: Shape | None = None) -> ActivationGraph:
    shape = shape or workload.model
    # DeepSpeed and FSDP hold weights in bf16 for computing: nothing is cast on the way
    sharding = workload.strategy not in ("single", "ddp")
    weight = 2 if sharding else workload.element
    autocast = workload.autocast and not sharding
    # BLOOM normalises its embeddings, and autocast runs LayerNorm in fp32
    widened = autocast and shape.architecture.names == "bloom"
    adapter = workload.adapter
    if adapter and workload.strategy.startswith("zero"):
        adapter = replace(adapter, element=2)
    targets = (adapter.target_modules or shape.architecture.lora) if adapter else ()
    return ActivationGraph(
        shape=shape,
        length=workload.tokens if workload.packed else workload.length,
        weight_element_size=weight,
        residual_element_size=4 if widened else weight,
        compute_element_size=2 if workload.autocast else weight,
        autocast=autocast,
        trains_base=adapter is None,
        adapter=adapter,
        targets=frozenset(targets),
        attention=_attention_kernel(workload, shape),
        padded=(workload.padded or workload.packed) and workload.attention == "sdpa",
    )


def _attention_kernel(workload: Workload, shape: Shape) -> str:
    """Some architectures have an attention of their own, whatever is asked for."""
    own = shape.architecture.attention
    narrow = workload.autocast or workload.element == 2
    if own == "fused" and not narrow and shape.kv_heads < shape.heads and not workload.padded:
        # no fused kernel takes fp32 with shared key/value heads: torch writes the product out
        return "eager" if workload.attention == "eager" else "plain"
    if own == "fused" or workload.attention == "eager":
        return workload.attention
    return "eager" if own == "alibi" else own


def saved_input_bytes(
    graph: ActivationGraph, matrices: tuple[Matrix, ...], element: int, kept: bool
) -> float:
    """Bytes a token of what these matrices keep of their common input, whose elements have
    `element` bytes. `kept`: something else keeps that tensor anyway."""
    width = matrices[0].inputs
    if graph.trains_base:
        if graph.autocast and element == 4:
            return len(matrices) * 2 * width  # each casts for itself, and keeps its copy
        return 0 if kept else element * width
    touched = [m for m in matrices if m.name in graph.targets]
    return _saved_adapter_input_bytes(graph, len(touched), width, element, kept)


def _saved_adapter_input_bytes(
    graph: ActivationGraph, count: int, width: int, element: int, kept: bool
) -> float:
    """LoRA keeps the input of its A, in the adapter's format, and the input of its B."""
    adapter = graph.adapter
    if adapter is None or not count:
        return 0
    computed = 2 if graph.autocast else adapter.element
    inner = count * adapter.rank * computed
    dropped = adapter.dropout > 0
    mask = count * width if dropped else 0
    shared = element == adapter.element == computed and not dropped
    if shared:
        return inner + (0 if kept else element * width)
    return inner + mask + count * computed * width


def autocast_copy_bytes(graph: ActivationGraph, matrices: tuple[Matrix, ...]) -> int:
    """Under autocast fp32 weights are cast for each product, and the copies kept for its backward."""
    if not graph.autocast:
        return 0
    base = sum(2 * m.elements for m in matrices) if graph.weight_element_size == 4 else 0
    adapter = graph.adapter
    if adapter is None or adapter.element == 2:
        return base
    touched = (m for m in matrices if m.name in graph.targets)
    return base + sum(2 * adapter.rank * (m.inputs + m.outputs) for m in touched)
