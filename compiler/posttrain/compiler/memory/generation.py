"""Memory while text is generated: the cache of keys and values, and vLLM's share of the card."""

from posttrain.compiler.facts import parameters
from posttrain.compiler.facts.accelerators import Device
from posttrain.compiler.facts.shapes import Shape
from posttrain.compiler.memory import sharding
from posttrain.compiler.memory.passing import layer_forward
from posttrain.compiler.memory.terms import GIB, Moment, Term, count, gib, moment, term
from posttrain.compiler.memory.workload import Rollout, Workload

ELEMENT = 2  # keys, values and weights in bf16
GRAPHS = 0.8 * GIB  # CUDA graphs for some tens of batch sizes
ENGINE = 0.4 * GIB  # what a sleeping engine keeps
BATCHED_TOKENS = 8192  # vLLM profiles one forward of this many
SAMPLING = 16  # bytes per entry of the vocabulary: logits, their fp32 copy, probabilities


def cache(shape: Shape, tokens: int) -> float:
    """Keys and values of one sequence of so many tokens. A windowed layer keeps its window, and
    linear attention one state whatever the length."""
    each = 2 * shape.kv_width * ELEMENT
    total = 0.0
    for block in parameters.blocks(shape):
        if block.mixer == "linear":
            total += block.layers * 4 * shape.linear_values * shape.linear_dim**2
        else:
            seen = min(tokens, shape.window) if block.mixer == "window" and shape.window else tokens
            total += block.layers * each * seen
    return total


def generation_moments(workload: Workload, device: Device, always: tuple[Term, ...]) -> tuple[Moment, ...]:
    rollout = workload.rollout
    if rollout is None:
        return ()
    if rollout.engine == "transformers":
        return _transformers(workload, rollout, always)
    if not rollout.colocated:
        return ()
    return (moment("generation", always, engine(workload, rollout, device)),)


def evaluation_moments(
    workload: Workload, always: tuple[Term, ...], beside: tuple[Term, ...]
) -> tuple[Moment, ...]:
    """The model writes by itself, between two steps, for evals on the way of its training."""
    if workload.evaluation is None:
        return ()
    found = _transformers(workload, workload.evaluation, always)
    return tuple(moment(f"{one.name} of an evaluation", one.terms, beside) for one in found)


def beside_training(workload: Workload, device: Device) -> tuple[Term, ...]:
    """What a colocated vLLM holds while the model trains."""
    rollout = workload.rollout
    if rollout is None or rollout.engine != "vllm" or not rollout.colocated:
        return ()
    if rollout.sleeps:
        kept = ENGINE + (GRAPHS if rollout.graphs else 0)
        return (term("vLLM asleep", kept, "graphs and buffers that sleeping keeps"),)
    return engine(workload, rollout, device)


def engine(workload: Workload, rollout: Rollout, device: Device) -> tuple[Term, ...]:
    """vLLM's terms. It fills its share with cache, so together they are that share, or more where
    the least that it starts with is more."""
    weights, scratch = _engine_weights(workload, rollout), _engine_scratch(workload, rollout)
    least = cache(workload.model, rollout.prompt + rollout.completion) / rollout.tensor_parallel
    room = rollout.utilisation * device.memory - weights - scratch
    held = count(rollout.sequences * (rollout.prompt + rollout.completion))
    return (
        term("vLLM weights", weights, f"bf16, over {rollout.tensor_parallel} GPU(s)"),
        term("vLLM workspace", scratch, f"one forward of {BATCHED_TOKENS} tokens, sampling"),
        term("vLLM cache", max(room, least), f"fills its share; {held} tokens are generated"),
        term("vLLM graphs", GRAPHS if rollout.graphs else 0, "outside of its share"),
    )


def refusal(workload: Workload, device: Device) -> str | None:
    """Why vLLM would not start: its share must hold the weights and one whole sequence."""
    rollout = workload.rollout
    if rollout is None or rollout.engine != "vllm":
        return None
    share = rollout.utilisation * device.memory
    length = rollout.prompt + rollout.completion
    least = cache(workload.model, length) / rollout.tensor_parallel
    needed = _engine_weights(workload, rollout) + _engine_scratch(workload, rollout) + least
    if needed <= share:
        return None
    return (
        f"vLLM's share of {rollout.utilisation:.2f} is {gib(share)}, but weights, workspace and "
        f"one sequence of {length} tokens take {gib(needed)}"
    )


def smallest_share(workload: Workload, device: Device, sequences: int) -> float:
    """The utilisation with which vLLM holds so many sequences at once."""
    rollout = workload.rollout
    assert rollout is not None, "only a workload that generates has a share"
    one = cache(workload.model, rollout.prompt + rollout.completion) / rollout.tensor_parallel
    scratch = _engine_scratch(workload, rollout)
    needed = _engine_weights(workload, rollout) + scratch + sequences * one
    return needed / device.memory


def _engine_weights(workload: Workload, rollout: Rollout) -> float:
    return ELEMENT * parameters.count(workload.model) / rollout.tensor_parallel


def _engine_scratch(workload: Workload, rollout: Rollout) -> float:
    shape = workload.model
    layer = BATCHED_TOKENS * layer_forward(shape, ELEMENT)
    sampled = min(rollout.sequences, 256) * SAMPLING * shape.vocab
    return (layer + sampled) / rollout.tensor_parallel


def _transformers(workload: Workload, rollout: Rollout, always: tuple[Term, ...]) -> tuple[Moment, ...]:
    shape, many = workload.model, rollout.sequences
    whole = sharding.whole(workload, shape)
    length = rollout.prompt + rollout.completion
    return (
        moment("prompt", always, whole, _prompt(shape, rollout)),
        moment(
            "generation",
            always,
            whole,
            (
                _cache_term(shape, many, length),
                term(
                    "cache copy",
                    many * cache(shape, length) / shape.layers,
                    "a layer's cache is copied as it grows",
                    passing=True,
                ),
                term("sampling", many * SAMPLING * shape.vocab, "logits of one token each", passing=True),
            ),
        ),
    )


def _prompt(shape: Shape, rollout: Rollout) -> tuple[Term, ...]:
    tokens = rollout.sequences * rollout.prompt
    widest = tokens * layer_forward(shape, ELEMENT)
    return (
        _cache_term(shape, rollout.sequences, rollout.prompt),
        term("layer under way", widest, f"{count(tokens)} prompt tokens at once", passing=True),
    )


def _cache_term(shape: Shape, many: int, length: int) -> Term:
    why = f"keys and values of {many} x {length} tokens"
    return term("cache", many * cache(shape, length), why, passing=True)
