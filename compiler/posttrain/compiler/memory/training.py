"""The moments of a training step, term by term.

Backward frees activations as it adds gradients, so that in between the sum only moves from one
end to the other: the peak is at one of the ends, and those are the moments below.
"""

from dataclasses import replace

from posttrain.compiler.facts import parameters
from posttrain.compiler.facts.shapes import Shape
from posttrain.compiler.memory import loss, sharding, state
from posttrain.compiler.memory.activations import Pass, micro_batch
from posttrain.compiler.memory.passing import layer_forward
from posttrain.compiler.memory.terms import Moment, Term, count, moment, term
from posttrain.compiler.memory.workload import Frozen, Workload


def standing(workload: Workload) -> tuple[Term, ...]:
    """What is there all the time: the trained models and the frozen ones beside them."""
    frozen = tuple(_frozen(workload, f) for f in workload.frozen)
    if not workload.train and workload.rollout and workload.rollout.engine == "vllm":
        return frozen  # the engine loads weights of its own
    value = _value(workload)
    return (
        *_standing(workload, workload.model, ""),
        *(_of_values(value) if value else ()),
        *frozen,
    )


def training_moments(workload: Workload) -> tuple[Moment, ...]:
    always = standing(workload)
    step = micro_batch(workload, workload.model)
    beside = _beside(workload)
    shard = sharding.during_backward(workload, workload.model)
    held = _gradients(workload, step.gradients if workload.accumulation > 1 else 0)
    early = (always, held, shard, beside, _kept(workload, step))
    return (
        moment("end of the forward", *early, _top(step, step.loss_forward), _casts(step)),
        *(_frozen_forward(workload, f, step, early) for f in workload.frozen),
        moment("loss, backward", *early, _top(step, step.loss_backward)),
        moment("first layer, backward", *early, _head(workload, step), _under_way(workload, step)),
        *_late(workload, step, always, shard),
    )


def forward_moments(workload: Workload) -> tuple[Moment, ...]:
    """A stage that scores texts and learns nothing."""
    if workload.rollout is not None:
        return ()
    shape, e = workload.model, workload.element
    widest = workload.tokens * layer_forward(shape, e)
    logits = loss.forward_only(shape, workload.tokens, e, workload.loss == "chunked")
    why = f"{workload.rows} x {workload.length} tokens"
    passing = term("layer under way", widest + logits, why, passing=True)
    return (moment("forward", standing(workload), (passing,)),)


def _late(
    workload: Workload, step: Pass, always: tuple[Term, ...], shard: tuple[Term, ...]
) -> tuple[Moment, ...]:
    """When most gradients are there."""
    tied = workload.model.tied and step.head_gradient > 0
    missing = step.layer_gradient - step.early_gradient
    missing += 0 if tied else step.embedding_gradient / state.shards(workload, 2)
    last = step.gradients if workload.accumulation > 1 else step.gradients - missing
    value = _value_gradients(workload)
    # a tied matrix gets two gradients, and their sum is a third; accumulation adds it to a fourth
    again = workload.accumulation > 1
    copies = (2 + again if tied else int(again)) * step.embedding_gradient
    embeddings = term("embedding gradients", copies, "summed before they are kept", passing=True)
    kept = (term("activations", step.kept_by_one, "of the last layer", passing=True),)
    steps = sharding.during_step(workload, workload.model)
    full = _gradients(workload, step.gradients)
    return (
        moment(
            "last layer, backward",
            always,
            _gradients(workload, last),
            value,
            shard,
            kept,
            _batch(step),
            _under_way(workload, step),
        ),
        moment("embeddings, backward", always, full, value, shard, _batch(step), (embeddings,)),
        moment("optimizer step", always, full, value, _buckets(shard), steps),
    )


def _standing(workload: Workload, shape: Shape, whose: str) -> tuple[Term, ...]:
    learning = state.trained(workload, shape)
    divided = f" / {workload.gpus} GPUs"
    base = state.base_weights(workload, shape)
    size = count(parameters.count(shape))
    weights = (
        term(f"{whose}weights", base, f"{size}{_format(workload)}{_over(workload, 3, divided)}"),
        term(
            f"{whose}adapter",
            state.adapter_weights(workload, shape),
            f"{count(learning)} parameters learn",
        ),
    )
    if not workload.train:
        return weights
    return (
        *weights,
        term(
            f"{whose}master weights",
            state.master(workload, shape),
            f"{count(learning)} in fp32{_over(workload, 1, divided)}",
        ),
        term(
            f"{whose}optimizer",
            state.optimizer(workload, shape),
            f"{workload.optimizer} states of {count(learning)}{_over(workload, 1, divided)}",
        ),
    )


def _format(workload: Workload) -> str:
    if workload.adapter and workload.adapter.quantised:
        return " in 4 bits"
    if workload.adapter:
        return f" at {2 if state.shards(workload, 3) > 1 else workload.element} bytes"
    return f" at {state.trained_element(workload)} bytes"


def _over(workload: Workload, stage: int, divided: str) -> str:
    return divided if state.shards(workload, stage) > 1 else ""


def _frozen(workload: Workload, model: Frozen) -> Term:
    size = count(parameters.count(model.shape))
    return term(f"{model.role} model", state.frozen_weights(workload, model), f"{size}, frozen")


def _of_values(value: Workload) -> tuple[Term, ...]:
    """The value model stands on the policy's own weights where an adapter leaves them as they are."""
    terms = _standing(value, value.model, "value ")
    return terms if value.adapter is None else terms[1:]


def _gradients(workload: Workload, size: float) -> tuple[Term, ...]:
    element = state.trained_element(workload)
    divided = _over(workload, 2, f" / {workload.gpus} GPUs")
    return (term("gradients", size, f"{element} bytes for each that learns{divided}"),)


def _kept(workload: Workload, step: Pass) -> tuple[Term, ...]:
    how = "inputs of the layers" if workload.checkpointing else "kept by all layers"
    why = f"{how}, {workload.rows} x {workload.length} tokens"
    return (term("activations", step.kept, why, passing=True), *_batch(step))


def _batch(step: Pass) -> tuple[Term, ...]:
    return (term("batch", step.batch, "tokens, positions, attention mask", passing=True),)


def _under_way(workload: Workload, step: Pass) -> tuple[Term, ...]:
    how = "computed again, and" if workload.checkpointing else "its"
    why = f"one layer {how} gradients on their way"
    return (term("layer under way", step.under_way, why, passing=True),)


def _head(workload: Workload, step: Pass) -> tuple[Term, ...]:
    """With accumulation their places are there already, but a tied head's waits for its sum."""
    again = workload.accumulation > 1
    size = 0 if again and not workload.model.tied else step.head_gradient
    size = size / state.shards(workload, 2) + (0 if again else step.early_gradient)
    return (term("first gradients", size, "of the head and of the layer under way"),)


def _top(step: Pass, size: float) -> tuple[Term, ...]:
    return (term("logits and loss", step.top + size, "head, loss, final norm", passing=True),)


def _casts(step: Pass) -> tuple[Term, ...]:
    return (term("weight casts", step.casts, "autocast's bf16 copies", passing=True),)


def _buckets(shard: tuple[Term, ...]) -> tuple[Term, ...]:
    return tuple(t for t in shard if t.name == "gradient buckets")


def _value(workload: Workload) -> Workload | None:
    """The value model's own training, which is the policy's but for its head."""
    if workload.value is None:
        return None
    return replace(workload, model=workload.value, value=None, frozen=(), loss="scores")


def _beside(workload: Workload) -> tuple[Term, ...]:
    """The value model's forward stands until both go backward."""
    value = _value(workload)
    if value is None:
        return ()
    step = micro_batch(value, value.model)
    size = step.kept + step.top + step.under_way
    return (term("value activations", size, "of the value model", passing=True),)


def _value_gradients(workload: Workload) -> tuple[Term, ...]:
    value = _value(workload)
    if value is None:
        return ()
    size = state.gradients(value, value.model)
    return (term("value gradients", size, "of the value model"),)


def _frozen_forward(
    workload: Workload, model: Frozen, step: Pass, early: tuple[tuple[Term, ...], ...]
) -> Moment:
    """A frozen model keeps nothing, but its widest layer and its logits are there for a moment."""
    tokens = model.rows * workload.length
    shape, e = model.shape, model.element
    widest = tokens * layer_forward(shape, e)
    logits = 0 if model.scores else loss.forward_only(shape, tokens, e, workload.loss == "chunked")
    passing = term(f"{model.role} forward", widest + logits, "its widest layer", passing=True)
    return moment(f"{model.role} forward", *early, _top(step, 0), (passing,))
