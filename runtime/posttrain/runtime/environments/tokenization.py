"""Tokenizes episodes: the prompt with the first observation, and the text between the model's turns."""

from collections.abc import Collection
from typing import Any

from posttrain.runtime.chat_prompts import (
    ChatPrompt,
    Prompt,
    prompt_turns,
    render_arguments,
    replace_turns,
)
from posttrain.runtime.environments.episode_runner import EnvironmentSession, EpisodeState
from posttrain.runtime.errors import StepError
from posttrain.runtime.models.template_arguments import default_argument_names
from posttrain.runtime.prompt_tokenization import tokenize_prompt

_PLACEHOLDER = "-"  # the content of a message, where only the template text around it is used
_KEEP_REASONING = "preserve_thinking"  # the argument that some templates read


def append_observation(prompt: Prompt, observation: str, session: EnvironmentSession) -> Prompt:
    """Append the first observation to a prompt. In a conversation, it extends the last user message."""
    if isinstance(prompt, str):
        return prompt + session.format_observation(observation)
    if not observation:
        return prompt
    turns = prompt_turns(prompt)
    *before, last = turns
    if last["role"] != "user":
        return replace_turns(prompt, [*turns, {"role": "user", "content": observation}])
    content = "\n\n".join(part for part in (last["content"], observation) if part)
    return replace_turns(prompt, [*before, {**last, "content": content}])


def last_observation(state: EpisodeState) -> dict[str, str]:
    """The observation that answers the model's last turn: a turn without content if there is none."""
    last = state.messages[-1]
    return {"role": "user", "content": ""} if last["role"] == "assistant" else last


class EpisodeTokenizer:
    def __init__(self, tokenizer: Any, ends: Collection[int], session: EnvironmentSession) -> None:
        self._tokenizer = tokenizer
        # The tokens that end a turn.
        self._eos_token_ids = {tokenizer.eos_token_id, *ends}
        self._session = session

    def encode_opening(self, prompt: Prompt, observation: str) -> list[int]:
        opening = append_observation(prompt, observation, self._session)
        return tokenize_prompt(opening, self._tokenizer)

    def decode(self, turn: list[int]) -> str:
        return self._tokenizer.decode(turn, skip_special_tokens=True)

    def end_tokens(self, last: int) -> list[int]:
        """The tokens that end a truncated turn, so that the next text does not read as its continuation."""
        return [] if last in self._eos_token_ids else [self._tokenizer.eos_token_id]

    def encode_reply(self, state: EpisodeState, last: int, prompt: Prompt) -> list[int]:
        """The tokens between a turn that ends with the token `last` and the next turn."""
        ending = self.end_tokens(last)
        observation = last_observation(state)
        if isinstance(prompt, str):
            return ending + self._encode(self._session.format_observation(observation["content"]))
        return ending + self._encode(self._between_turns(observation, prompt))

    def _between_turns(self, observation: dict[str, str], prompt: list[Any] | ChatPrompt) -> str:
        """The text of the chat template between the end of an assistant message and the start of the next."""
        before = [{"role": "user", "content": _PLACEHOLDER}, {"role": "assistant", "content": _PLACEHOLDER}]
        prefix = self._render(prompt, before)
        rendered = self._render_reply(prompt, [*before, observation])
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

    def _render_reply(self, prompt: list[Any] | ChatPrompt, turns: list[dict[str, str]]) -> str:
        """The conversation with an observation. Templates can reject turns of tools, or leave them out."""
        from jinja2 import TemplateError

        observation = turns[-1]
        advice = "use a chat template with turns of tools, or set `observation_role: user` in the environment"
        try:
            rendered = self._render(prompt, turns, add_generation_prompt=True)
        except TemplateError as error:
            if observation["role"] == "user":
                raise
            raise StepError(f"the chat template rejects the result of a tool: {error}", advice) from None
        if observation["role"] != "user" and observation["content"].strip() not in rendered:
            raise StepError("the chat template does not render the results of tools", advice)
        return rendered

    def _render(
        self,
        prompt: list[Any] | ChatPrompt,
        turns: list[dict[str, str]],
        *,
        add_generation_prompt: bool = False,
    ) -> str:
        """Other turns with the tools and arguments of a prompt.

        An episode keeps the reasoning of its earlier turns, unless the recipe sets it. Some templates would
        drop it by default.
        """
        declared = default_argument_names(self._tokenizer.chat_template)
        keep = {} if _KEEP_REASONING in declared else {_KEEP_REASONING: True}
        arguments = {**keep, **render_arguments(prompt)}
        return self._tokenizer.apply_chat_template(
            turns, tokenize=False, add_generation_prompt=add_generation_prompt, **arguments
        )

    def _encode(self, text: str) -> list[int]:
        return self._tokenizer(text, add_special_tokens=False)["input_ids"]
