"""The work of evaluations during training: the engine that generates, the memory, and the time."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from posttrain.compiler.facts.accelerators import Device
from posttrain.compiler.memory.duration import TimeShare
from posttrain.compiler.memory.generation_duration import CompletionWork, generation_seconds
from posttrain.compiler.memory.memory_terms import format_count
from posttrain.compiler.memory.workload import RolloutWorkload, Strategy, Workload
from posttrain.compiler.placement.assumed_lengths import MEAN_COMPLETION_SHARE

MAX_NUM_SEQS = 256  # sequences that vLLM runs at a time


class EvaluationWork(NamedTuple):
    """An eval that runs during training."""

    name: str
    prompt_tokens: int
    completion_tokens: int  # at most
    samples: int  # completions of each row
    batch_size: int  # rows that transformers generates for at a time
    rows: int | None  # None if unknown
    runs: int  # how often it runs; 0 if the number of steps is unknown

    @property
    def batch(self) -> RolloutWorkload:
        """The largest batch of a process, with transformers."""
        rows = min(self.batch_size, self.rows or self.batch_size)
        return RolloutWorkload(
            "transformers", self.prompt_tokens, self.completion_tokens, rows * self.samples
        )


def evaluation_runs(steps: int, eval_steps: int) -> int:
    """Return how often an evaluation runs: after every `eval_steps` steps, and after the last one."""
    return -(-steps // eval_steps)


def uses_rollout_engine(rollout: RolloutWorkload | None, strategy: Strategy, *, adapter: bool) -> bool:
    """Return whether vLLM, which generates the rollouts, generates for evaluations as well.

    With a sharded adapter it does not: the weight sync would change the trained weights.
    """
    sharded = adapter and strategy in ("zero3", "fsdp")
    return rollout is not None and rollout.engine == "vllm" and not sharded


def largest_batch(evaluations: Sequence[EvaluationWork]) -> RolloutWorkload | None:
    """Return the batch of evaluations with transformers that needs the most memory."""
    return max(
        (one.batch for one in evaluations),
        key=lambda one: one.sequences * (one.prompt_tokens + one.completion_tokens),
        default=None,
    )


def evaluation_shares(
    workload: Workload, evaluations: Sequence[EvaluationWork], device: Device
) -> tuple[TimeShare, ...]:
    """Return the time of the evaluations whose number of rows is known."""
    return tuple(_evaluation_share(workload, one, device) for one in evaluations if one.rows is not None)


def _evaluation_share(workload: Workload, work: EvaluationWork, device: Device) -> TimeShare:
    rollout = workload.rollout
    completions = (work.rows or 0) * work.samples
    if rollout is not None and workload.evaluation is None:
        engine, gpus = _rollout_engine(rollout, work), rollout.gpus or workload.gpus
    else:
        engine, gpus = work.batch, workload.gpus
    mean = MEAN_COMPLETION_SHARE * work.completion_tokens
    once = generation_seconds(workload.model, engine, device, CompletionWork(completions, mean, gpus))
    why = f"{work.runs} x {format_count(completions)} completions, {engine.engine} on {gpus} GPU(s)"
    name = f"in-loop evaluation {work.name}"
    return TimeShare(name, work.runs * once.least, work.runs * once.most, why)


def _rollout_engine(rollout: RolloutWorkload, work: EvaluationWork) -> RolloutWorkload:
    """Return the engine of the rollouts as evaluations use it: with the same cache for other lengths."""
    cached = rollout.sequences * (rollout.prompt_tokens + rollout.completion_tokens)
    fitting = int(cached / (work.prompt_tokens + work.completion_tokens))
    return replace(
        rollout,
        prompt_tokens=work.prompt_tokens,
        completion_tokens=work.completion_tokens,
        sequences=max(1, min(MAX_NUM_SEQS, fitting)),
    )
