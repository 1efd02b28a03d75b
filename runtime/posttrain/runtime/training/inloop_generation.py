"""Generates the completions of in-loop evaluations with all processes of a stage.

Rank 0 runs the evaluations, because judges and environments must get each request once. For each generation
it broadcasts the prompts, and every process generates its share.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, cast

from posttrain.runtime.chat_prompts import Prompt
from posttrain.runtime.distributed.full_weights import unsharded_model
from posttrain.runtime.distributed.process_group import all_gather, broadcast, is_rank_zero, rank, world_size
from posttrain.runtime.engines.completion_log import Completion, CompletionLog
from posttrain.runtime.engines.engine_protocol import GenerationRequest, Share
from posttrain.runtime.engines.transformers_generator import TransformersGenerator
from posttrain.runtime.step_context import StopRequest
from posttrain.runtime.trl_compat.vllm_evaluation import open_rollout_engine
from posttrain.spec.plan import Launch
from posttrain.spec.step_params.generation_params import SamplingOptions

_Request = tuple[Sequence[Prompt], SamplingOptions, int]


class ShareGenerator(Protocol):
    """A loaded model that generates a share of a request."""

    def fill_log(self, request: GenerationRequest) -> None:
        """Add the completions of the request's share to its log."""
        ...


@dataclass(frozen=True)
class InLoopGenerator:
    """The engine of this process, and the share of each request that it generates."""

    engine: ShareGenerator
    # None if the engine of another process generates for this one.
    share: Share | None

    def generate(
        self, prompts: Sequence[Prompt], sampling: SamplingOptions, seed: int
    ) -> list[list[Completion]]:
        """Generate completions of every prompt, in the order of the prompts. Called by rank 0, while the
        other processes run `serve`."""
        broadcast((prompts, sampling, seed))
        return self._generate(prompts, sampling, seed)

    def serve(self) -> None:
        """Take part in the generations of rank 0 until it calls `finish`."""
        while (request := _receive()) is not None:
            self._generate(*request)

    def finish(self) -> None:
        """End `serve` in the other processes."""
        broadcast(None)

    def _generate(
        self, prompts: Sequence[Prompt], sampling: SamplingOptions, seed: int
    ) -> list[list[Completion]]:
        log = CompletionLog(None, prompts, sampling.n)
        if self.share is not None:
            request = GenerationRequest(
                prompts=prompts,
                sampling=sampling,
                seed=seed,
                log=log,
                progress=lambda _done, _total: None,
                stop=StopRequest(),
                share=self.share,
            )
            self.engine.fill_log(request)
        for entries in all_gather(log.entries()):
            for (place, draw), completion in entries.items():
                log.add(place, draw, completion)
        return log.all()


def _receive() -> _Request | None:
    """Return the next request of rank 0; None if there are no more."""
    return broadcast(cast(_Request | None, None))


@contextmanager
def open_generator(trainer: Any, tokenizer: Any, launch: Launch) -> Generator[InLoopGenerator]:
    """Open the engine with the current weights: that of the rollouts if vLLM generates them, else
    transformers. Collective: all processes must call this."""
    if launch.engine == "vllm" and not is_adapter_sharded(trainer.model, launch.strategy):
        with open_rollout_engine(trainer, tokenizer) as engine:
            yield InLoopGenerator(engine, _vllm_share(trainer.vllm_generation))
        return
    with unsharded_model(trainer.model, launch.strategy):
        # PPO trains the policy and the value model as one module.
        policy = getattr(trainer.model, "policy", trainer.model)
        yield InLoopGenerator(TransformersGenerator(policy, tokenizer), Share(rank(), world_size()))


def is_adapter_sharded(model: Any, strategy: str) -> bool:
    """Whether a weight sync to vLLM would change the trained weights: TRL then merges the adapter into them
    and removes it, with a rounding error."""
    return strategy in ("zero3", "fsdp") and hasattr(model, "peft_config")


def _vllm_share(engine: Any) -> Share | None:
    """Return the share of this process. A server is used by rank 0 only; the processes of a tensor parallel
    group generate the same share together."""
    if engine.mode == "server":
        return Share() if is_rank_zero() else None
    parallel = engine.tensor_parallel_size
    return Share(rank() // parallel, world_size() // parallel)
