"""The moments of a training step, term by term.

Backward frees activations as it adds gradients, so that in between the sum only moves from one
end to the other: the peak is at one of the ends, and those are the moments below.
"""

from dataclasses import replace

from posttrain.compiler.facts import parameter_counts
from posttrain.compiler.facts.model_shapes import Shape
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


def resident_terms(workload: Workload) -> tuple[MemoryTerm, ...]:
    """What is there all the time: the trained models and the frozen ones beside them."""
    frozen = tuple(_frozen_model_term(workload, f) for f in workload.frozen)
    if not workload.train and workload.rollout and workload.rollout.engine == "vllm":
        return frozen  # the engine loads weights of its own
    value = _value_workload(workload)
    return (
        *_model_state_terms(workload, workload.model, ""),
        *(_value_model_terms(value) if value else ()),
        *frozen,
    )


def training_phases(workload: Workload) -> tuple[MemoryPhase, ...]:
    always = resident_terms(workload)
    step = micro_batch_memory(workload, workload.model)
    beside = _value_activation_terms(workload)
    shard = sharding.backward_sharding_terms(workload, workload.model)
    gradient_terms = _gradient_terms(workload, step.gradients if workload.accumulation > 1 else 0)
    early = (always, gradient_terms, shard, beside, _activation_terms(workload, step))
    return (
        memory_phase(
            "end of the forward", *early, _loss_terms(step, step.loss_forward), _autocast_terms(step)
        ),
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


def forward_phases(workload: Workload) -> tuple[MemoryPhase, ...]:
    """A stage that scores texts and learns nothing."""
    if workload.rollout is not None:
        return ()
    shape, e = workload.model, workload.element
    widest = workload.tokens * layer_forward_bytes(shape, e)
    logits = loss_memory.inference_logits_bytes(shape, workload.tokens, e, workload.loss == "chunked")
    why = f"{workload.rows} x {workload.length} tokens"
    passing = memory_term("layer under way", widest + logits, why, passing=True)
    return (memory_phase("forward", resident_terms(workload), (passing,)),)


def _late_backward_phases(
    workload: Workload, step: MicroBatchMemory, always: tuple[MemoryTerm, ...], shard: tuple[MemoryTerm, ...]
) -> tuple[MemoryPhase, ...]:
    """When most gradients are there."""
    tied = workload.model.tied and step.head_gradient > 0
    missing = step.layer_gradient - step.early_gradient
    missing += 0 if tied else step.embedding_gradient / model_states.shard_count(workload, 2)
    last = step.gradients if workload.accumulation > 1 else step.gradients - missing
    value = _value_gradient_terms(workload)
    # a tied matrix gets two gradients, and their sum is a third; accumulation adds it to a fourth
    again = workload.accumulation > 1
    copies = (2 + again if tied else int(again)) * step.embedding_gradient
    embeddings = memory_term("embedding gradients", copies, "summed before they are kept", passing=True)
    saved = (memory_term("activations", step.saved_per_layer, "of the last layer", passing=True),)
    steps = sharding.optimizer_step_terms(workload, workload.model)
    full = _gradient_terms(workload, step.gradients)
    return (
        memory_phase(
            "last layer, backward",
            always,
            _gradient_terms(workload, last),
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
            f"{format_count(learning)} parameters learn",
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
    """The value model stands on the policy's own weights where an adapter leaves them as they are."""
    terms = _model_state_terms(value, value.model, "value ")
    return terms if value.adapter is None else terms[1:]


def _gradient_terms(workload: Workload, size: float) -> tuple[MemoryTerm, ...]:
    element = model_states.trained_element_size(workload)
    divided = _sharding_note(workload, 2, f" / {workload.gpus} GPUs")
    return (memory_term("gradients", size, f"{element} bytes for each that learns{divided}"),)


def _activation_terms(workload: Workload, step: MicroBatchMemory) -> tuple[MemoryTerm, ...]:
    how = "inputs of the layers" if workload.checkpointing else "kept by all layers"
    why = f"{how}, {workload.rows} x {workload.length} tokens"
    return (memory_term("activations", step.saved_activations, why, passing=True), *_batch_terms(step))


def _batch_terms(step: MicroBatchMemory) -> tuple[MemoryTerm, ...]:
    return (memory_term("batch", step.batch_tensors, "tokens, positions, attention mask", passing=True),)


def _layer_backward_terms(workload: Workload, step: MicroBatchMemory) -> tuple[MemoryTerm, ...]:
    how = "computed again, and" if workload.checkpointing else "its"
    why = f"one layer {how} gradients on their way"
    return (memory_term("layer under way", step.layer_backward_peak, why, passing=True),)


def _first_gradient_terms(workload: Workload, step: MicroBatchMemory) -> tuple[MemoryTerm, ...]:
    """With accumulation their places are there already, but a tied head's waits for its sum."""
    again = workload.accumulation > 1
    size = 0 if again and not workload.model.tied else step.head_gradient
    size = size / model_states.shard_count(workload, 2) + (0 if again else step.early_gradient)
    return (memory_term("first gradients", size, "of the head and of the layer under way"),)


def _loss_terms(step: MicroBatchMemory, size: float) -> tuple[MemoryTerm, ...]:
    return (
        memory_term("logits and loss", step.head_activations + size, "head, loss, final norm", passing=True),
    )


def _autocast_terms(step: MicroBatchMemory) -> tuple[MemoryTerm, ...]:
    return (memory_term("weight casts", step.autocast_copies, "autocast's bf16 copies", passing=True),)


def _gradient_bucket_terms(shard: tuple[MemoryTerm, ...]) -> tuple[MemoryTerm, ...]:
    return tuple(t for t in shard if t.name == "gradient buckets")


def _value_workload(workload: Workload) -> Workload | None:
    """The value model's own training, which is the policy's but for its head."""
    if workload.value_model is None:
        return None
    return replace(workload, model=workload.value_model, value_model=None, frozen=(), loss="scores")


def _value_activation_terms(workload: Workload) -> tuple[MemoryTerm, ...]:
    """The value model's forward stands until both go backward."""
    value = _value_workload(workload)
    if value is None:
        return ()
    step = micro_batch_memory(value, value.model)
    size = step.saved_activations + step.head_activations + step.layer_backward_peak
    return (memory_term("value activations", size, "of the value model", passing=True),)


def _value_gradient_terms(workload: Workload) -> tuple[MemoryTerm, ...]:
    value = _value_workload(workload)
    if value is None:
        return ()
    size = model_states.gradient_bytes(value, value.model)
    return (memory_term("value gradients", size, "of the value model"),)


def _frozen_forward_phase(
    workload: Workload, model: FrozenModel, step: MicroBatchMemory, early: tuple[tuple[MemoryTerm, ...], ...]
) -> MemoryPhase:
    """A frozen model keeps nothing, but its widest layer and its logits are there for a moment."""
    tokens = model.rows * workload.length
    shape, e = model.shape, model.element
    widest = tokens * layer_forward_bytes(shape, e)
    logits = (
        0
        if model.scores
        else loss_memory.inference_logits_bytes(shape, tokens, e, workload.loss == "chunked")
    )
    passing = memory_term(f"{model.role} forward", widest + logits, "its widest layer", passing=True)
    return memory_phase(f"{model.role} forward", *early, _loss_terms(step, 0), (passing,))
