"""How an episode reads to a model, in tokens: its prompt, and what it is told between its turns."""

from collections.abc import Collection
from typing import Any

from posttrain.runtime.environments.episode_runner import EnvironmentSession, EpisodeState
from posttrain.runtime.errors import StepError

_PLACEHOLDER = "-"  # a turn of the model's, where only what surrounds it is wanted
Prompt = str | list[dict[str, str]]


def append_observation(prompt: Prompt, observation: str, world: EnvironmentSession) -> Prompt:
    """A prompt with the first observation after it: in a conversation, at the end of the last turn."""
    if isinstance(prompt, str):
        return prompt + world.format_observation(observation)
    if not observation:
        return prompt
    *before, last = prompt
    if last["role"] != "user":
        return [*prompt, {"role": "user", "content": observation}]
    told = "\n\n".join(part for part in (last["content"], observation) if part)
    return [*before, {**last, "content": told}]


class EpisodeTokenizer:
    def __init__(self, tokenizer: Any, ends: Collection[int], world: EnvironmentSession) -> None:
        self._tokenizer = tokenizer
        # The tokens after which the model says no more.
        self._eos_token_ids = {tokenizer.eos_token_id, *ends}
        self._world = world
        self._chat = False

    def encode_opening(self, prompt: Prompt, observation: str) -> list[int]:
        whole = append_observation(prompt, observation, self._world)
        self._chat = not isinstance(whole, str)
        return self._encode(whole if isinstance(whole, str) else self._render(whole))

    def decode(self, turn: list[int]) -> str:
        return self._tokenizer.decode(turn, skip_special_tokens=True)

    def end_tokens(self, last: int) -> list[int]:
        """What ends a turn that was cut: the next one must not read as its continuation."""
        return [] if last in self._eos_token_ids else [self._tokenizer.eos_token_id]

    def encode_reply(self, play: EpisodeState, last: int) -> list[int]:
        """What stands between a turn, whose last token is given, and the next one."""
        ended = self.end_tokens(last)
        answered = play.messages[-1]["role"] == "user"
        observation = play.messages[-1]["content"] if answered else ""
        if not self._chat:
            return ended + self._encode(self._world.format_observation(observation))
        return ended + self._encode(self._between_turns(observation))

    def _between_turns(self, observation: str) -> str:
        """The text from the end of an assistant's turn to the beginning of the next one."""
        before = [{"role": "user", "content": _PLACEHOLDER}, {"role": "assistant", "content": _PLACEHOLDER}]
        after = [*before, {"role": "user", "content": observation}]
        written = self._tokenizer.apply_chat_template(before, tokenize=False)
        whole = self._render(after)
        # Some templates write a line break after the token that ends a turn: the model did not.
        cut = written.rfind(self._tokenizer.eos_token)
        kept = written if cut < 0 else written[: cut + len(self._tokenizer.eos_token)]
        if not whole.startswith(kept):
            raise StepError(
                "the chat template changes what was said before when another turn follows",
                "give the model a chat template that adds each turn to those before it",
            )
        return whole[len(kept) :]

    def _render(self, turns: list[dict[str, str]]) -> str:
        return self._tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)

    def _encode(self, text: str) -> list[int]:
        return self._tokenizer(text, add_special_tokens=False)["input_ids"]
