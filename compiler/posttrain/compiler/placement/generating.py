"""Lays a stage that only writes completions on the target: an eval, a generation."""

from collections.abc import Sequence
from dataclasses import replace

from posttrain.compiler.facts.accelerators import Device
from posttrain.compiler.facts.shapes import Shape
from posttrain.compiler.memory.duration import Schedule
from posttrain.compiler.memory.estimate import Estimate, estimate
from posttrain.compiler.memory.workload import Rollout, Workload
from posttrain.compiler.placement.estimates import UNTOLD, estimated
from posttrain.compiler.placement.placed import Placed
from posttrain.compiler.placement.target import Target
from posttrain.compiler.placement.workloads import COMPLETION, element_of, prompt_of
from posttrain.spec.asking import Sampling
from posttrain.spec.models import Model
from posttrain.spec.plan import Launch

_SHARE = 0.9
_AT_ONCE = 256  # sequences that vLLM runs together


def place_generation(
    model: Model | None,
    shape: Shape | None,
    sampling: Sampling,
    rows: int | None,
    engine: str,
    target: Target,
    about: str = "",
) -> Placed:
    """On one GPU, or on as many as hold the weights. Without a known shape there is no estimate."""
    if shape is None:
        return Placed(launch=Launch(engine=engine), gpus=1 if target.gpus else 0)
    work, memory = _smallest(shape, model, sampling, engine, target)
    parallel = work.rollout.tensor_parallel if work.rollout else 1
    schedule = Schedule(1, 0, rows * sampling.samples, COMPLETION * sampling.max_tokens) if rows else None
    return Placed(
        launch=Launch(
            engine=engine,
            rollouts={"utilisation": _SHARE, "tensor_parallel": parallel} if engine == "vllm" else {},
        ),
        gpus=parallel if target.gpus else 0,
        estimate={
            **estimated(work, memory, schedule, target),
            **({"assumes": [about]} if about and target.gpus else {}),
            **({"untold": UNTOLD} if schedule is None and target.gpus else {}),
        },
    )


def together(laid: Sequence[Placed]) -> Placed:
    """Models that a stage asks one after the other: the memory of the largest, the time of all."""
    largest = max(laid, key=lambda one: (one.estimate or {}).get("memory_gb", 0.0))
    if len(laid) == 1 or any(one.estimate is None for one in laid):
        return largest
    told = [one.estimate or {} for one in laid]
    summed = ("seconds", "seconds_least", "seconds_most", "dollars")
    if not all(name in one for one in told for name in summed):
        return largest
    times = {name: round(sum(one[name] for one in told), 2) for name in summed}
    return replace(largest, estimate={**(largest.estimate or {}), **times})


def _smallest(
    shape: Shape, model: Model | None, sampling: Sampling, engine: str, target: Target
) -> tuple[Workload, Estimate]:
    found = [
        _on(n, shape, model, sampling, engine, target.device)
        for n in (1, 2, 4, 8)
        if n <= max(1, target.gpus)
    ]
    if engine != "vllm":
        return found[0]
    return next((pair for pair in found if pair[1].fits), found[-1])


def _on(
    parallel: int, shape: Shape, model: Model | None, sampling: Sampling, engine: str, device: Device
) -> tuple[Workload, Estimate]:
    vllm = engine == "vllm"
    prompt = prompt_of(shape, sampling)
    rollout = Rollout(
        "vllm" if vllm else "transformers",
        prompt,
        sampling.max_tokens,
        _AT_ONCE if vllm else sampling.batch * sampling.samples,
        utilisation=_SHARE,
        tensor_parallel=parallel,
    )
    work = Workload(
        model=shape,
        length=prompt + sampling.max_tokens,
        train=False,
        element=2 if element_of(model) == 2 else 4,
        rollout=rollout,
    )
    return work, estimate(work, device)
