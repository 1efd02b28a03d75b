"""The memory of text generation: the KV cache, and the share of the GPU that vLLM reserves."""

from posttrain.compiler.facts import parameter_counts
from posttrain.compiler.facts.accelerators import Device
from posttrain.compiler.facts.cost_constants import cost_constants
from posttrain.compiler.memory import sharding
from posttrain.compiler.memory.backward_peak import layer_forward_bytes
from posttrain.compiler.memory.memory_terms import (
    MemoryPhase,
    MemoryTerm,
    format_count,
    format_gib,
    memory_phase,
    memory_term,
)
from posttrain.compiler.memory.workload import RolloutWorkload, Workload
from posttrain.spec.architectures.model_shapes import Shape

BF16_BYTES = 2  # keys, values and weights in bf16
MAX_NUM_BATCHED_TOKENS = 8192  # vLLM profiles one forward pass with this many tokens
SAMPLING_BYTES_PER_LOGIT = 16  # logits, their fp32 copy and the probabilities


def kv_cache_bytes(shape: Shape, tokens: int) -> float:
    """Return the KV cache of one sequence of `tokens` tokens. A windowed layer caches its window, and
    linear attention has one state of fixed size."""
    each = 2 * shape.kv_width * BF16_BYTES
    total = 0.0
    for block in parameter_counts.layer_blocks(shape):
        if block.mixer == "linear":
            total += block.layers * 4 * shape.linear_values * shape.linear_dim**2
        else:
            seen = min(tokens, shape.window) if block.mixer == "window" and shape.window else tokens
            total += block.layers * each * seen
    return total


def generation_phases(
    workload: Workload, device: Device, always: tuple[MemoryTerm, ...]
) -> tuple[MemoryPhase, ...]:
    rollout = workload.rollout
    if rollout is None:
        return ()
    if rollout.engine == "transformers":
        return _transformers_phases(workload, rollout, always)
    if not rollout.colocated:
        return ()
    return (memory_phase("generation", always, vllm_terms(workload, rollout, device)),)


def evaluation_phases(
    workload: Workload, always: tuple[MemoryTerm, ...], engine: tuple[MemoryTerm, ...]
) -> tuple[MemoryPhase, ...]:
    """Return the phases of evaluations during training, when the trainer generates between two steps."""
    if workload.evaluation is None:
        return ()
    found = _transformers_phases(workload, workload.evaluation, always)
    return tuple(memory_phase(f"{one.name} of an evaluation", one.terms, engine) for one in found)


def colocated_vllm_terms(workload: Workload, device: Device) -> tuple[MemoryTerm, ...]:
    """Return the memory of a colocated vLLM during training."""
    rollout = workload.rollout
    if rollout is None or rollout.engine != "vllm" or not rollout.colocated:
        return ()
    if rollout.enable_sleep_mode:
        resident = cost_constants(device).vllm_asleep_bytes + _graph_bytes(rollout, device)
        return (memory_term("vLLM asleep", resident, "graphs and buffers that sleep mode keeps"),)
    return vllm_terms(workload, rollout, device)


def vllm_terms(workload: Workload, rollout: RolloutWorkload, device: Device) -> tuple[MemoryTerm, ...]:
    """Return the terms of vLLM. It fills its share with cache, so they add up to the share, or to its
    minimum if that is larger."""
    weights, scratch = _vllm_weight_bytes(workload, rollout), _vllm_workspace_bytes(workload, rollout)
    least = (
        kv_cache_bytes(workload.model, rollout.prompt_tokens + rollout.completion_tokens)
        / rollout.tensor_parallel_size
    )
    room = rollout.gpu_memory_utilization * device.memory - weights - scratch
    tokens_text = format_count(rollout.sequences * (rollout.prompt_tokens + rollout.completion_tokens))
    return (
        memory_term("vLLM weights", weights, f"bf16, over {rollout.tensor_parallel_size} GPU(s)"),
        memory_term(
            "vLLM workspace", scratch, f"one forward pass of {MAX_NUM_BATCHED_TOKENS} tokens, sampling"
        ),
        memory_term(
            "vLLM cache", max(room, least), f"fills the vLLM share; {tokens_text} tokens are generated"
        ),
        memory_term("vLLM graphs", _graph_bytes(rollout, device), "not part of the vLLM share"),
    )


def _graph_bytes(rollout: RolloutWorkload, device: Device) -> float:
    return cost_constants(device).vllm_graph_bytes if rollout.cuda_graphs else 0.0


def vllm_start_error(workload: Workload, device: Device) -> str | None:
    """Return why vLLM cannot start, or None: its share must hold the weights and one whole sequence."""
    rollout = workload.rollout
    if rollout is None or rollout.engine != "vllm":
        return None
    share = rollout.gpu_memory_utilization * device.memory
    length = rollout.prompt_tokens + rollout.completion_tokens
    least = kv_cache_bytes(workload.model, length) / rollout.tensor_parallel_size
    needed = _vllm_weight_bytes(workload, rollout) + _vllm_workspace_bytes(workload, rollout) + least
    if needed <= share:
        return None
    return (
        f"the vLLM share of {rollout.gpu_memory_utilization:.2f} is {format_gib(share)}, but weights,"
        f" workspace and one sequence of {length} tokens need {format_gib(needed)}"
    )


def min_gpu_memory_utilization(workload: Workload, device: Device, sequences: int) -> float:
    """Return the `gpu_memory_utilization` at which vLLM holds this many sequences at once."""
    rollout = workload.rollout
    assert rollout is not None, "only a workload with a rollout has a vLLM share"
    one = (
        kv_cache_bytes(workload.model, rollout.prompt_tokens + rollout.completion_tokens)
        / rollout.tensor_parallel_size
    )
    scratch = _vllm_workspace_bytes(workload, rollout)
    needed = _vllm_weight_bytes(workload, rollout) + scratch + sequences * one
    return needed / device.memory


def _vllm_weight_bytes(workload: Workload, rollout: RolloutWorkload) -> float:
    return BF16_BYTES * parameter_counts.count_parameters(workload.model) / rollout.tensor_parallel_size


def _vllm_workspace_bytes(workload: Workload, rollout: RolloutWorkload) -> float:
    shape = workload.model
    layer = MAX_NUM_BATCHED_TOKENS * layer_forward_bytes(shape, BF16_BYTES)
    sampled = min(rollout.sequences, 256) * SAMPLING_BYTES_PER_LOGIT * shape.vocab
    return (layer + sampled) / rollout.tensor_parallel_size


def _transformers_phases(
    workload: Workload, rollout: RolloutWorkload, always: tuple[MemoryTerm, ...]
) -> tuple[MemoryPhase, ...]:
    shape, many = workload.model, rollout.sequences
    whole = sharding.full_weight_terms(workload, shape)
    length = rollout.prompt_tokens + rollout.completion_tokens
    return (
        memory_phase("prompt", always, whole, _prefill_terms(shape, rollout)),
        memory_phase(
            "generation",
            always,
            whole,
            (
                _kv_cache_term(shape, many, length),
                memory_term(
                    "cache copy",
                    many * kv_cache_bytes(shape, length) / shape.layers,
                    "the cache of a layer is copied as it grows",
                    transient=True,
                ),
                memory_term(
                    "sampling",
                    many * SAMPLING_BYTES_PER_LOGIT * shape.vocab,
                    "logits of one token per sequence",
                    transient=True,
                ),
            ),
        ),
    )


def _prefill_terms(shape: Shape, rollout: RolloutWorkload) -> tuple[MemoryTerm, ...]:
    tokens = rollout.sequences * rollout.prompt_tokens
    widest = tokens * layer_forward_bytes(shape, BF16_BYTES)
    return (
        _kv_cache_term(shape, rollout.sequences, rollout.prompt_tokens),
        memory_term(
            "current layer", widest, f"{format_count(tokens)} prompt tokens at a time", transient=True
        ),
    )


def _kv_cache_term(shape: Shape, many: int, length: int) -> MemoryTerm:
    why = f"keys and values of {many} x {length} tokens"
    return memory_term("cache", many * kv_cache_bytes(shape, length), why, transient=True)
