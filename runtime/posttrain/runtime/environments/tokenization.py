"""Tokenizes episodes: the prompt with the first observation, and the text between the model's turns."""

from collections.abc import Collection
from typing import Any

from posttrain.runtime.environments.episode_runner import EnvironmentSession, EpisodeState
from posttrain.runtime.errors import StepError
from posttrain.runtime.prompt_tokenization import tokenize_prompt

_PLACEHOLDER = "-"  # the content of a message, where only the template text around it is used
Prompt = str | list[dict[str, str]]


def append_observation(prompt: Prompt, observation: str, session: EnvironmentSession) -> Prompt:
    """Append the first observation to a prompt. In a conversation, it extends the last user message."""
    if isinstance(prompt, str):
        return prompt + session.format_observation(observation)
    if not observation:
        return prompt
    *before, last = prompt
    if last["role"] != "user":
        return [*prompt, {"role": "user", "content": observation}]
    content = "\n\n".join(part for part in (last["content"], observation) if part)
    return [*before, {**last, "content": content}]


class EpisodeTokenizer:
    def __init__(self, tokenizer: Any, ends: Collection[int], session: EnvironmentSession) -> None:
        self._tokenizer = tokenizer
        # The tokens that end a turn.
        self._eos_token_ids = {tokenizer.eos_token_id, *ends}
        self._session = session
        self._chat = False

    def encode_opening(self, prompt: Prompt, observation: str) -> list[int]:
        opening = append_observation(prompt, observation, self._session)
        self._chat = not isinstance(opening, str)
        return tokenize_prompt(opening, self._tokenizer)

    def decode(self, turn: list[int]) -> str:
        return self._tokenizer.decode(turn, skip_special_tokens=True)

    def end_tokens(self, last: int) -> list[int]:
        """The tokens that end a truncated turn, so that the next text does not read as its continuation."""
        return [] if last in self._eos_token_ids else [self._tokenizer.eos_token_id]

    def encode_reply(self, state: EpisodeState, last: int) -> list[int]:
        """The tokens between a turn that ends with the token `last` and the next turn."""
        ending = self.end_tokens(last)
        answered = state.messages[-1]["role"] == "user"
        observation = state.messages[-1]["content"] if answered else ""
        if not self._chat:
            return ending + self._encode(self._session.format_observation(observation))
        return ending + self._encode(self._between_turns(observation))

    def _between_turns(self, observation: str) -> str:
        """The text of the chat template between the end of an assistant message and the start of the next."""
        before = [{"role": "user", "content": _PLACEHOLDER}, {"role": "assistant", "content": _PLACEHOLDER}]
        after = [*before, {"role": "user", "content": observation}]
        prefix = self._tokenizer.apply_chat_template(before, tokenize=False)
        rendered = self._render(after)
        # Some templates add a line break after the end token, which the model did not generate.
        end = prefix.rfind(self._tokenizer.eos_token)
        if end >= 0:
            prefix = prefix[: end + len(self._tokenizer.eos_token)]
        if not rendered.startswith(prefix):
            raise StepError(
                "the chat template changes earlier messages when a message is added",
                "use a chat template that only appends: multi-turn training requires stable prefixes",
            )
        return rendered[len(prefix) :]

    def _render(self, turns: list[dict[str, str]]) -> str:
        return self._tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)

    def _encode(self, text: str) -> list[int]:
        return self._tokenizer(text, add_special_tokens=False)["input_ids"]
