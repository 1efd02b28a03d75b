"""The memory phases of a training step, term by term.

The backward pass frees activations while it adds gradients, so the total is highest at its start or at its
end. The phases below cover both.
"""

from dataclasses import replace

from posttrain.compiler.facts import parameter_counts
from posttrain.compiler.memory import loss_memory, model_states, sharding
from posttrain.compiler.memory.activations import MicroBatchMemory, micro_batch_memory
from posttrain.compiler.memory.backward_peak import layer_forward_bytes
from posttrain.compiler.memory.memory_terms import (
    MemoryPhase,
    MemoryTerm,
    format_count,
    memory_phase,
    memory_term,
)
from posttrain.compiler.memory.workload import FrozenModel, Workload
from posttrain.spec.architectures.model_shapes import Shape


def resident_terms(workload: Workload) -> tuple[MemoryTerm, ...]:
    """Return the terms of all phases: the trained models and the frozen models."""
    frozen = tuple(_frozen_model_term(workload, f) for f in workload.frozen)
    if not workload.train and workload.rollout and workload.rollout.engine == "vllm":
        return frozen  # the engine loads its own weights
    value = _value_workload(workload)
    return (
        *_model_state_terms(workload, workload.model, ""),
        *(_value_model_terms(value) if value else ()),
        *_resident_gradient_terms(workload, value),
        *frozen,
    )


def training_phases(workload: Workload, always: tuple[MemoryTerm, ...]) -> tuple[MemoryPhase, ...]:
    """Return the phases of an optimizer step. `always` are the resident terms."""
    step = micro_batch_memory(workload, workload.model)
    value = _value_activation_terms(workload)
    shard = sharding.backward_sharding_terms(workload, workload.model)
    gradient_terms = _backward_gradient_terms(workload, step.gradients if workload.accumulation > 1 else 0)
    early = (always, gradient_terms, shard, value, _activation_terms(workload, step))
    return (
        memory_phase("end of forward", *early, _loss_terms(step, step.loss_forward), _autocast_terms(step)),
        *(_frozen_forward_phase(workload, f, step, early) for f in workload.frozen),
        memory_phase("loss, backward", *early, _loss_terms(step, step.loss_backward)),
        memory_phase(
            "first layer, backward",
            *early,
            _first_gradient_terms(workload, step),
            _layer_backward_terms(workload, step),
        ),
        *_late_backward_phases(workload, step, always, shard),
    )


def forward_phases(workload: Workload, always: tuple[MemoryTerm, ...]) -> tuple[MemoryPhase, ...]:
    """Return the phases of a stage that only scores texts."""
    if workload.rollout is not None:
        return ()
    shape, e = workload.model, workload.element
    widest = workload.tokens * layer_forward_bytes(shape, e)
    logits = loss_memory.inference_logits_bytes(shape, workload.tokens, e, workload.loss == "chunked")
    why = f"{workload.rows} x {workload.length} tokens"
    passing = memory_term("current layer", widest + logits, why, transient=True)
    return (memory_phase("forward", always, (passing,)),)


def _late_backward_phases(
    workload: Workload, step: MicroBatchMemory, always: tuple[MemoryTerm, ...], shard: tuple[MemoryTerm, ...]
) -> tuple[MemoryPhase, ...]:
    """Return the phases in which most gradients exist."""
    tied = workload.model.tied and step.head_gradient > 0
    missing = step.layer_gradient - step.early_gradient
    missing += 0 if tied else step.embedding_gradient / model_states.shard_count(workload, 2)
    last = step.gradients if workload.accumulation > 1 else step.gradients - missing
    value = () if model_states.has_resident_gradients(workload) else _value_gradient_terms(workload)
    # a tied matrix has two gradients and their sum; accumulation adds the sum to a fourth tensor
    again = workload.accumulation > 1
    copies = (2 + again if tied else int(again)) * step.embedding_gradient
    embeddings = memory_term("embedding gradients", copies, "summed before they are stored", transient=True)
    saved = (memory_term("activations", step.saved_per_layer, "of the last layer", transient=True),)
    steps = sharding.optimizer_step_terms(workload, workload.model)
    full = _backward_gradient_terms(workload, step.gradients)
    return (
        memory_phase(
            "last layer, backward",
            always,
            _backward_gradient_terms(workload, last),
            value,
            shard,
            saved,
            _batch_terms(step),
            _layer_backward_terms(workload, step),
        ),
        memory_phase("embeddings, backward", always, full, value, shard, _batch_terms(step), (embeddings,)),
        memory_phase("optimizer step", always, full, value, _gradient_bucket_terms(shard), steps),
    )


def _model_state_terms(workload: Workload, shape: Shape, whose: str) -> tuple[MemoryTerm, ...]:
    learning = model_states.trainable_parameters(workload, shape)
    divided = f" / {workload.gpus} GPUs"
    base = model_states.base_weight_bytes(workload, shape)
    size = format_count(parameter_counts.count_parameters(shape))
    weights = (
        memory_term(
            f"{whose}weights", base, f"{size}{_weight_format(workload)}{_sharding_note(workload, 3, divided)}"
        ),
        memory_term(
            f"{whose}adapter",
            model_states.adapter_weight_bytes(workload, shape),
            f"{format_count(learning)} trained parameters",
        ),
    )
    if not workload.train:
        return weights
    return (
        *weights,
        memory_term(
            f"{whose}master weights",
            model_states.master_weight_bytes(workload, shape),
            f"{format_count(learning)} in fp32{_sharding_note(workload, 1, divided)}",
        ),
        memory_term(
            f"{whose}optimizer",
            model_states.optimizer_state_bytes(workload, shape),
            f"{workload.optimizer} states of {format_count(learning)}{_sharding_note(workload, 1, divided)}",
        ),
    )


def _weight_format(workload: Workload) -> str:
    if workload.adapter and workload.adapter.quantized:
        return " in 4 bits"
    if workload.adapter:
        return f" at {2 if model_states.shard_count(workload, 3) > 1 else workload.element} bytes"
    return f" at {model_states.trained_element_size(workload)} bytes"


def _sharding_note(workload: Workload, stage: int, divided: str) -> str:
    return divided if model_states.shard_count(workload, stage) > 1 else ""


def _frozen_model_term(workload: Workload, model: FrozenModel) -> MemoryTerm:
    size = format_count(parameter_counts.count_parameters(model.shape))
    return memory_term(
        f"{model.role} model", model_states.frozen_weight_bytes(workload, model), f"{size}, frozen"
    )


def _value_model_terms(value: Workload) -> tuple[MemoryTerm, ...]:
    """Return the terms of the value model. With an adapter it shares the frozen weights of the policy."""
    terms = _model_state_terms(value, value.model, "value ")
    return terms if value.adapter is None else terms[1:]


def _resident_gradient_terms(workload: Workload, value: Workload | None) -> tuple[MemoryTerm, ...]:
    if not model_states.has_resident_gradients(workload):
        return ()
    own = _gradient_terms(workload, model_states.gradient_bytes(workload, workload.model))
    return (*own, *(_value_gradient_terms(workload) if value else ()))


def _backward_gradient_terms(workload: Workload, size: float) -> tuple[MemoryTerm, ...]:
    """Return the gradients that the backward pass allocates."""
    return () if model_states.has_resident_gradients(workload) else _gradient_terms(workload, size)


def _gradient_terms(workload: Workload, size: float) -> tuple[MemoryTerm, ...]:
    element = model_states.trained_element_size(workload)
    divided = _sharding_note(workload, 2, f" / {workload.gpus} GPUs")
    return (memory_term("gradients", size, f"{element} bytes per trained parameter{divided}"),)


def _activation_terms(workload: Workload, step: MicroBatchMemory) -> tuple[MemoryTerm, ...]:
    how = "layer inputs" if workload.checkpointing else "saved by all layers"
    why = f"{how}, {workload.rows} x {workload.length} tokens"
    return (memory_term("activations", step.saved_activations, why, transient=True), *_batch_terms(step))


def _batch_terms(step: MicroBatchMemory) -> tuple[MemoryTerm, ...]:
    return (memory_term("batch", step.batch_tensors, "tokens, positions, attention mask", transient=True),)


def _layer_backward_terms(workload: Workload, step: MicroBatchMemory) -> tuple[MemoryTerm, ...]:
    how = "recomputed, with" if workload.checkpointing else "with"
    why = f"one layer {how} temporary gradients"
    return (memory_term("current layer", step.layer_backward_peak, why, transient=True),)


def _first_gradient_terms(workload: Workload, step: MicroBatchMemory) -> tuple[MemoryTerm, ...]:
    """Return the gradients at the start of the backward pass. With accumulation, and with ZeRO-3, they are
    already allocated, except the summed gradient of a tied head."""
    again = workload.accumulation > 1 or model_states.has_resident_gradients(workload)
    size = 0 if again and not workload.model.tied else step.head_gradient
    size = size / model_states.shard_count(workload, 2) + (0 if again else step.early_gradient)
    return (memory_term("first gradients", size, "of the head and of the current layer"),)


def _loss_terms(step: MicroBatchMemory, size: float) -> tuple[MemoryTerm, ...]:
    return (
        memory_term(
            "logits and loss", step.head_activations + size, "head, loss, final norm", transient=True
        ),
    )


def _autocast_terms(step: MicroBatchMemory) -> tuple[MemoryTerm, ...]:
    return (memory_term("weight casts", step.autocast_copies, "bf16 copies of autocast", transient=True),)


def _gradient_bucket_terms(shard: tuple[MemoryTerm, ...]) -> tuple[MemoryTerm, ...]:
    return tuple(t for t in shard if t.name == "gradient buckets")


def _value_workload(workload: Workload) -> Workload | None:
    """Return the training workload of the value model: that of the policy with another head."""
    if workload.value_model is None:
        return None
    return replace(workload, model=workload.value_model, value_model=None, frozen=(), loss="scores")


def _value_activation_terms(workload: Workload) -> tuple[MemoryTerm, ...]:
    """Return the activations of the value model, which are saved until both models run backward."""
    value = _value_workload(workload)
    if value is None:
        return ()
    step = micro_batch_memory(value, value.model)
    size = step.saved_activations + step.head_activations + step.layer_backward_peak
    return (memory_term("value activations", size, "of the value model", transient=True),)


def _value_gradient_terms(workload: Workload) -> tuple[MemoryTerm, ...]:
    value = _value_workload(workload)
    if value is None:
        return ()
    size = model_states.gradient_bytes(value, value.model)
    return (memory_term("value gradients", size, "of the value model"),)


def _frozen_forward_phase(
    workload: Workload, model: FrozenModel, step: MicroBatchMemory, early: tuple[tuple[MemoryTerm, ...], ...]
) -> MemoryPhase:
    """Return the forward pass of a frozen model: it saves nothing, but its widest layer and its logits
    exist briefly."""
    tokens = model.rows * workload.length
    shape, e = model.shape, model.element
    widest = tokens * layer_forward_bytes(shape, e)
    logits = (
        0
        if model.scores
        else loss_memory.inference_logits_bytes(shape, tokens, e, workload.loss == "chunked")
    )
    passing = memory_term(f"{model.role} forward", widest + logits, "its widest layer", transient=True)
    return memory_phase(f"{model.role} forward", *early, _loss_terms(step, 0), (passing,))
