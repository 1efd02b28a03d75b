"""The interface of engines: a request with prompts in, completions out, each logged as it arrives."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from posttrain.runtime.chat_prompts import Prompt
from posttrain.runtime.engines.completion_log import Completion, CompletionLog
from posttrain.runtime.step_context import StopRequest
from posttrain.spec.step_params.generation_params import SamplingOptions

# The chat template of a model behind an endpoint, whose text is not known.
ENDPOINT_TEMPLATE = "the endpoint's own"


@dataclass(frozen=True)
class Share:
    """The units of work of one of several processes: every `count`-th one, from `index` on."""

    index: int = 0
    count: int = 1

    def has(self, unit: int) -> bool:
        return unit % self.count == self.index


@dataclass(frozen=True, kw_only=True)
class GenerationRequest:
    """A request for `n` completions of every prompt."""

    # Text is used as it is. Messages are rendered with the model's chat template.
    prompts: Sequence[Prompt]
    # The stage's `sampling` section.
    sampling: SamplingOptions
    seed: int
    # Has the completions of earlier attempts, and records new ones.
    log: CompletionLog
    progress: Callable[[int, int], None]
    stop: StopRequest
    # The part of the request that this process generates: every batch or prompt has a number.
    share: Share = Share()

    @property
    def samples(self) -> int:
        return self.sampling.n


class TextGenerator(Protocol):
    """A loaded model. Returned by an engine's `run(context, model_spec)`."""

    @property
    def chat_template(self) -> str | None:
        """The chat template, or None if the model accepts only text."""
        ...

    def generate(self, request: GenerationRequest) -> list[list[Completion]]:
        """Generate the completions of each prompt, in the order of the prompts.

        Raises Interrupted at a stop request. Completions up to then are in the log.
        """
        ...

    def close(self) -> None:
        """Release the model's memory."""
        ...
