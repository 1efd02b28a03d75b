"""Tokenizes prompts: the same token ids in training, generation and evaluation, and with every engine."""

from collections.abc import Iterable, Sequence
from typing import Any

from posttrain.runtime.chat_prompts import prompt_turns, render_arguments
from posttrain.runtime.errors import StepError
from posttrain.spec.messages import turn_text

_SHOWN_CHARACTERS = 80
_PROBE = "a"  # any text: only the special tokens around it are used


def tokenize_prompts(prompts: Iterable[Any], tokenizer: Any) -> list[list[int]]:
    """The token ids of prompts, as TRL's trainers tokenize the start of a sequence.

    Text gets the special tokens that the tokenizer puts before it, such as BOS. Messages have only those of
    the chat template. A token that the tokenizer puts after a text is removed, since a completion follows.
    """
    every = list(prompts)
    plain = {place: prompt for place, prompt in enumerate(every) if isinstance(prompt, str)}
    rendered = {
        place: render_prompt(prompt, tokenizer) for place, prompt in enumerate(every) if place not in plain
    }
    encoded = {
        **dict(zip(plain, tokenize_starts(list(plain.values()), tokenizer, special=True), strict=True)),
        **dict(
            zip(rendered, tokenize_starts(list(rendered.values()), tokenizer, special=False), strict=True)
        ),
    }
    return [encoded[place] for place in range(len(every))]


def render_prompt(prompt: Any, tokenizer: Any) -> str:
    """The text of messages, with the tools and template arguments of their row, up to the next turn."""
    from jinja2 import TemplateError

    turns = prompt_turns(prompt)
    try:
        return tokenizer.apply_chat_template(
            turns, tokenize=False, add_generation_prompt=True, **render_arguments(prompt)
        )
    except TemplateError as error:
        shown = " ".join(map(turn_text, turns))[:_SHOWN_CHARACTERS]
        message = f"the chat template rejects the prompt `{shown}`: {error}"
        raise StepError(message, "fix the template, or the rows in the dataset's steps") from None


def tokenize_prompt(prompt: Any, tokenizer: Any) -> list[int]:
    """The token ids of one prompt: text or messages."""
    return tokenize_prompts([prompt], tokenizer)[0]


def tokenize_starts(texts: Sequence[str], tokenizer: Any, *, special: bool) -> list[list[int]]:
    """The token ids of texts, after the special tokens that the tokenizer puts before them if `special`."""
    if not texts:
        return []
    encoded = tokenizer(list(texts), add_special_tokens=special)["input_ids"]
    after = _tokens_after_text(tokenizer) if special else 0
    return [ids[: len(ids) - after] for ids in encoded]


def tokenize_nonempty_prompts(prompts: Iterable[Any], tokenizer: Any) -> list[list[int]]:
    """The token ids of prompts to generate from. A model cannot generate from a prompt without tokens."""
    tokenized = tokenize_prompts(prompts, tokenizer)
    empty = sum(not tokens for tokens in tokenized)
    if empty:
        message = f"{empty} of {len(tokenized)} prompts have no tokens"
        raise StepError(message, "drop such rows with the data op `where: prompt <> ''`")
    return tokenized


def common_prefix(ids: Sequence[int], others: Sequence[int]) -> int:
    """The number of tokens that two sequences share at their start."""
    pairs = enumerate(zip(ids, others, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(ids), len(others)))


def pad_left(tokenized: Sequence[Sequence[int]], pad_token_id: int | None) -> tuple[Any, Any]:
    """Pad token ids on the left. Returns them with their attention mask, which hides the padding."""
    import torch

    longest = max(map(len, tokenized))
    ids = [[pad_token_id or 0] * (longest - len(tokens)) + list(tokens) for tokens in tokenized]
    mask = [[0] * (longest - len(tokens)) + [1] * len(tokens) for tokens in tokenized]
    return torch.tensor(ids), torch.tensor(mask)


def _tokens_after_text(tokenizer: Any) -> int:
    """The number of special tokens that a tokenizer puts after a text."""
    special = tokenizer(_PROBE, return_special_tokens_mask=True)["special_tokens_mask"]
    return special[::-1].index(0) if 0 in special else 0
