"""How an episode reads to a model, in tokens: its prompt, and what it is told between its turns."""

from collections.abc import Collection
from typing import Any

from posttrain.runtime.environments.playing import Play, World
from posttrain.runtime.faults import StepFault

_SAID = "-"  # a turn of the model's, where only what surrounds it is wanted
Prompt = str | list[dict[str, str]]


def opened_with(prompt: Prompt, observation: str, world: World) -> Prompt:
    """A prompt with the first observation after it: in a conversation, at the end of the last turn."""
    if isinstance(prompt, str):
        return prompt + world.replied(observation)
    if not observation:
        return prompt
    *before, last = prompt
    if last["role"] != "user":
        return [*prompt, {"role": "user", "content": observation}]
    told = "\n\n".join(part for part in (last["content"], observation) if part)
    return [*before, {**last, "content": told}]


class Phrasing:
    def __init__(self, tokenizer: Any, ends: Collection[int], world: World) -> None:
        self._tokenizer = tokenizer
        # The tokens after which the model says no more.
        self._ends = {tokenizer.eos_token_id, *ends}
        self._world = world
        self._chat = False

    def opening(self, prompt: Prompt, observation: str) -> list[int]:
        whole = opened_with(prompt, observation, self._world)
        self._chat = not isinstance(whole, str)
        return self._encoded(whole if isinstance(whole, str) else self._rendered(whole))

    def text(self, turn: list[int]) -> str:
        return self._tokenizer.decode(turn, skip_special_tokens=True)

    def ended(self, last: int) -> list[int]:
        """What ends a turn that was cut: the next one must not read as its continuation."""
        return [] if last in self._ends else [self._tokenizer.eos_token_id]

    def reply(self, play: Play, last: int) -> list[int]:
        """What stands between a turn, whose last token is given, and the next one."""
        ended = self.ended(last)
        answered = play.said[-1]["role"] == "user"
        observation = play.said[-1]["content"] if answered else ""
        if not self._chat:
            return ended + self._encoded(self._world.replied(observation))
        return ended + self._encoded(self._between(observation))

    def _between(self, observation: str) -> str:
        """The text from the end of an assistant's turn to the beginning of the next one."""
        before = [{"role": "user", "content": _SAID}, {"role": "assistant", "content": _SAID}]
        after = [*before, {"role": "user", "content": observation}]
        written = self._tokenizer.apply_chat_template(before, tokenize=False)
        whole = self._rendered(after)
        # Some templates write a line break after the token that ends a turn: the model did not.
        cut = written.rfind(self._tokenizer.eos_token)
        kept = written if cut < 0 else written[: cut + len(self._tokenizer.eos_token)]
        if not whole.startswith(kept):
            raise StepFault(
                "the chat template changes what was said before when another turn follows",
                "give the model a chat template that adds each turn to those before it",
            )
        return whole[len(kept) :]

    def _rendered(self, turns: list[dict[str, str]]) -> str:
        return self._tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)

    def _encoded(self, text: str) -> list[int]:
        return self._tokenizer(text, add_special_tokens=False)["input_ids"]
