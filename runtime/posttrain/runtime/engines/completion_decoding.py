"""What local engines share: prompts as text, tokens as completions, and how these are drawn."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from posttrain.runtime.engines.completion_log import Completion, Prompt


def render_prompt(prompt: Prompt, tokenizer: Any) -> str:
    """A prompt as the text that the model reads: turns go through the chat template."""
    if isinstance(prompt, str):
        return prompt
    return tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)


def decode_completion(
    tokens: Sequence[int], tokenizer: Any, ends: Collection[int], stop: Sequence[str]
) -> Completion:
    """The text that new tokens stand for. It ends before the first token that ends it, and after the
    first text that does."""
    end = next((place for place, token in enumerate(tokens) if token in ends), None)
    completion_tokens = list(tokens if end is None else tokens[:end])
    while stop and end is None and completion_tokens and completion_tokens[-1] == tokenizer.pad_token_id:
        completion_tokens.pop()
    text = tokenizer.decode(completion_tokens, skip_special_tokens=True)
    stop_index = find_stop(text, stop)
    if stop_index is not None:
        return Completion(text[:stop_index], len(completion_tokens), "stop")
    return Completion(text, len(completion_tokens), "length" if end is None else "stop")


def find_stop(text: str, stop: Sequence[str]) -> int | None:
    """Where a text ends, when one of the texts that end it occurs."""
    found = [text.index(word) + len(word) for word in stop if word in text]
    return min(found) if found else None


def generation_kwargs(sampling: Mapping[str, Any]) -> dict[str, Any]:
    """How completions are drawn, as transformers names it."""
    shared = {
        "max_new_tokens": sampling["max_tokens"],
        "num_return_sequences": sampling["n"],
        # Given even at 1, or the model's generation_config.json would decide.
        "repetition_penalty": sampling["repetition_penalty"],
    }
    if sampling["temperature"] == 0:
        return {**shared, "do_sample": False}
    return {
        **shared,
        "do_sample": True,
        "temperature": sampling["temperature"],
        "top_p": sampling["top_p"],
        "top_k": sampling["top_k"],
        "min_p": sampling["min_p"] or None,
    }
