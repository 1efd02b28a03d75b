"""The properties of a forward pass that decide what autograd saves: number formats, trained weights and
attention. All activation terms of a stage read one such graph."""

from dataclasses import replace
from typing import NamedTuple

from posttrain.compiler.facts.parameter_counts import Matrix
from posttrain.compiler.memory.workload import LoraAdapter, Workload
from posttrain.spec.architectures.model_shapes import Shape


class ActivationGraph(NamedTuple):
    shape: Shape
    length: int  # tokens that a token can attend to
    weight_element_size: int  # bytes per element of the base weights in the forward pass
    residual_element_size: int  # bytes per element of the residual stream, in the format of the embeddings
    compute_element_size: int  # bytes per element of the result of a matrix product
    autocast: bool
    trains_base: bool  # whether the base weights are trained; otherwise only the adapter is
    adapter: LoraAdapter | None
    targets: frozenset[str]
    attention: str
    padded: bool


def build_activation_graph(workload: Workload, shape: Shape | None = None) -> ActivationGraph:
    shape = shape or workload.model
    # DeepSpeed and FSDP compute with bf16 weights, so autocast casts nothing
    sharding = workload.strategy not in ("single", "ddp")
    weight = 2 if sharding else workload.element
    autocast = workload.autocast and not sharding
    # BLOOM normalizes its embeddings, and autocast runs LayerNorm in fp32
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
    """Return the attention implementation. Some architectures ignore the requested one."""
    own = shape.architecture.attention
    narrow = workload.autocast or workload.element == 2
    if own == "fused" and not narrow and shape.kv_heads < shape.heads and not workload.padded:
        # no fused kernel supports fp32 with grouped key/value heads: torch materializes the scores
        return "eager" if workload.attention == "eager" else "plain"
    if own == "fused" or workload.attention == "eager":
        return workload.attention
    return "eager" if own == "alibi" else own


def saved_input_bytes(
    graph: ActivationGraph, matrices: tuple[Matrix, ...], element: int, already_saved: bool
) -> float:
    """Return the bytes per token that these matrices save of their common input, with `element` bytes per
    element. `already_saved`: another operation saves the same tensor."""
    width = matrices[0].inputs
    if graph.trains_base:
        if graph.autocast and element == 4:
            return len(matrices) * 2 * width  # each product casts its input and saves the copy
        return 0 if already_saved else element * width
    touched = [m for m in matrices if m.name in graph.targets]
    saved = graph.adapter.saved_outputs if graph.adapter else 0
    outputs = saved * graph.compute_element_size * sum(m.outputs for m in touched)
    return outputs + _saved_adapter_input_bytes(graph, len(touched), width, element, already_saved)


def _saved_adapter_input_bytes(
    graph: ActivationGraph, count: int, width: int, element: int, already_saved: bool
) -> float:
    """Return the saved inputs of LoRA: the input of A in the format of the adapter, and the input of B."""
    adapter = graph.adapter
    if adapter is None or not count:
        return 0
    computed = 2 if graph.autocast else adapter.element
    inner = count * adapter.rank * computed
    dropped = adapter.dropout > 0
    mask = count * width if dropped else 0
    shared = element == adapter.element == computed and not dropped
    if shared:
        return inner + (0 if already_saved else element * width)
    return inner + mask + count * computed * width


def autocast_copy_bytes(graph: ActivationGraph, matrices: tuple[Matrix, ...]) -> int:
    """Return the bytes of the bf16 copies of fp32 weights, which autocast keeps for the backward pass."""
    if not graph.autocast:
        return 0
    base = sum(2 * m.elements for m in matrices) if graph.weight_element_size == 4 else 0
    adapter = graph.adapter
    if adapter is None or adapter.element == 2:
        return base
    touched = (m for m in matrices if m.name in graph.targets)
    return base + sum(2 * adapter.rank * (m.inputs + m.outputs) for m in touched)
