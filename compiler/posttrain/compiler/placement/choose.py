"""Chooses how a training stage lies on a target: the first strategy that fits, and in it what is fastest.

Strategies are tried by what they cost in communication. Within one, gradient checkpointing and the
micro-batch are weighed by the time that they take. What the recipe gives is never changed.
"""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import isqrt
from typing import NamedTuple

from posttrain.compiler.facts.accelerators import Device
from posttrain.compiler.memory.duration import duration
from posttrain.compiler.memory.estimate import Estimate, estimate
from posttrain.compiler.memory.generation import smallest_share
from posttrain.compiler.memory.workload import Rollout, Strategy, Workload
from posttrain.compiler.placement.workloads import Asked, Choice, amount, workload

# What a choice leaves free: predictions are good, machines differ.
MARGIN = 0.95
# The shares of a card that vLLM is given at most, awake and asleep beside the training.
_SHARE, _SHARE_ASLEEP, _SHARE_SERVER = 0.45, 0.85, 0.9
_LEAST_SHARE = 0.1
_PARALLEL = (1, 2, 4, 8)
_MOST_TRIED = 100_000
_FRACTIONS = (1, 2, 4, 8)  # of the completions, that vLLM works on at once
_TALKING = 1.2  # for every doubling of tensor parallelism


class Given(NamedTuple):
    """What the recipe says of the placement itself; None is free."""

    processes: int  # that may be used at most, or exactly those that are asked for
    strategy: Strategy | None = None
    micro: int | None = None
    checkpointing: bool | None = None
    engine: str | None = None  # for methods that write completions
    server: int = 0  # GPUs of vLLM's own
    utilisation: float | None = None
    tensor_parallel: int | None = None
    sleep: bool | None = None
    # Micro-batches that the method's loss does not take.
    refused: frozenset[int] = frozenset()
    # How the method's models can be divided.
    strategies: tuple[str, ...] = ("ddp", "zero2", "zero3")


class Chosen(NamedTuple):
    choice: Choice
    workload: Workload
    estimate: Estimate

    def fits(self, margin: float = MARGIN) -> bool:
        return self.estimate.fits and self.estimate.total <= margin * self.estimate.limit


@functools.lru_cache(maxsize=4096)
def choose(asked: Asked, given: Given, device: Device, bounded: bool) -> Chosen:
    """The best choice that fits; where none does, the one that comes nearest."""
    nearest: Chosen | None = None
    for strategy in _strategies(asked, given):
        fitting: list[Chosen] = []
        for chosen in _in(strategy, asked, given, device):
            if chosen.fits() or not bounded:
                fitting.append(chosen)
            if nearest is None or chosen.estimate.total < nearest.estimate.total:
                nearest = chosen
        if fitting:
            return min(fitting, key=lambda c: _cost(c, asked, device))
    assert nearest is not None, "there is always a choice"
    return nearest


def _cost(chosen: Chosen, asked: Asked, device: Device) -> tuple[float, float]:
    took = duration(chosen.workload, device, amount(asked)._replace(steps=100))
    rollout = chosen.choice.rollout
    # What the time does not hold: waking up, and GPUs that talk to each other for every token.
    factor = (
        1.0
        if rollout is None
        else (1.1 if rollout.sleeps else 1.0) * _TALKING ** (rollout.tensor_parallel.bit_length() - 1)
    )
    return (took.most + took.least) * factor, chosen.estimate.total


def _strategies(asked: Asked, given: Given) -> Sequence[Strategy]:
    if given.strategy is not None:
        return (given.strategy,)
    if given.processes == 1:
        return ("single",)
    if asked.adapter is not None and asked.adapter.quantised:
        return ("ddp",)  # 4-bit weights cannot be divided
    found: tuple[Strategy, ...] = ("ddp", "zero3") if asked.adapter is not None else ("ddp", "zero2", "zero3")
    return [strategy for strategy in found if strategy in given.strategies]


def _in(strategy: Strategy, asked: Asked, given: Given, device: Device) -> Iterator[Chosen]:
    """For each way to write completions, with and without checkpointing, the largest micro-batch
    that fits; or the smallest there is."""
    again = (False, True) if given.checkpointing is None else (given.checkpointing,)
    for rollout in _rollouts(asked, given, device, strategy):
        for checkpointing in again:
            last: Chosen | None = None
            for micro in _micro(asked, given):
                choice = Choice(given.processes, strategy, micro, checkpointing, rollout)
                work = workload(asked, choice, given.refused)
                last = Chosen(choice, work, estimate(work, device))
                if last.fits():
                    break
            if last is not None:
                yield last


def _micro(asked: Asked, given: Given) -> list[int]:
    """Micro-batches that give the batch, the largest first."""
    each = asked.batch // given.processes
    if given.micro is not None:
        return [given.micro]
    sizes = [m for m in reversed(divisors(each)) if m not in given.refused]
    return sizes or [each]


def divisors(number: int) -> list[int]:
    """In rising order; a batch may be written with as many digits as one likes."""
    small = [n for n in range(1, min(isqrt(number), _MOST_TRIED) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})


def _rollouts(asked: Asked, given: Given, device: Device, strategy: Strategy) -> Iterator[Rollout | None]:
    if not asked.written:
        yield None
        return
    each = max(1, asked.written // given.processes)
    completion = asked.length - asked.prompt
    if given.engine != "vllm":
        yield Rollout("transformers", asked.prompt, completion, each)
        return
    if given.server:
        yield from _served(Rollout("vllm", asked.prompt, completion, each, colocated=False), asked, given)
        return
    for sleeps in (False, True) if given.sleep is None else (given.sleep,):
        for parallel in _parallel(asked, given):
            base = Rollout("vllm", asked.prompt, completion, each, tensor_parallel=parallel, sleeps=sleeps)
            yield from _shared(base, asked, given, device, strategy)


def _served(base: Rollout, asked: Asked, given: Given) -> Iterator[Rollout]:
    """On GPUs of its own vLLM takes what there is."""
    share = given.utilisation or _SHARE_SERVER
    for parallel in _parallel(asked, given._replace(processes=given.server)):
        yield replace(base, utilisation=share, tensor_parallel=parallel)


def _shared(
    base: Rollout, asked: Asked, given: Given, device: Device, strategy: Strategy
) -> Iterator[Rollout]:
    """The rollout with its share of the card: for all completions at once, or for some at a time."""
    most = _SHARE_ASLEEP if base.sleeps else _SHARE
    work = workload(asked, Choice(given.processes, strategy, 1, True, base))
    least = base.sequences
    for sequences in sorted({max(1, base.sequences // n) for n in _FRACTIONS}, reverse=True):
        least = sequences
        needed = -int(-100 * smallest_share(work, device, sequences) // 1) / 100
        if given.utilisation is not None:
            if needed <= given.utilisation:
                break
        elif needed <= most:
            yield replace(base, sequences=sequences, utilisation=max(_LEAST_SHARE, needed))
    yield replace(base, sequences=least, utilisation=given.utilisation or most)


def _parallel(asked: Asked, given: Given) -> list[int]:
    if given.tensor_parallel is not None:
        return [given.tensor_parallel]
    heads = asked.model.kv_heads
    return [n for n in _PARALLEL if given.processes % n == 0 and (heads % n == 0 or n % heads == 0)]
