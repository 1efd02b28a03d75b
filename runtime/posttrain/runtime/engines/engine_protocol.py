"""What every engine takes and gives: an order of prompts in, completions out, each kept as it comes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from posttrain.runtime.engines.completion_log import Completion, CompletionLog, Prompt
from posttrain.runtime.step_context import StopRequest


@dataclass(frozen=True, kw_only=True)
class GenerationRequest:
    """What a model is to write: `n` completions of every prompt."""

    # Text is read as it stands; turns go through the model's chat template.
    prompts: Sequence[Prompt]
    # A stage's `sampling`.
    sampling: Mapping[str, Any]
    seed: int
    # What is there already, and where what comes goes.
    log: CompletionLog
    progress: Callable[[int, int], None]
    stop: StopRequest

    @property
    def samples(self) -> int:
        return self.sampling["n"]


class TextGenerator(Protocol):
    """A model ready to write. An engine's `run(context, subject)` gives one."""

    @property
    def chat_template(self) -> str | None:
        """How turns become text; None when the model takes text alone."""
        ...

    def generate(self, request: GenerationRequest) -> list[list[Completion]]:
        """The completions of each prompt, in the order of the prompts.

        Raises Interrupted when the step is asked to stop: what was written by then is kept.
        """
        ...

    def close(self) -> None:
        """Give the memory back."""
        ...
