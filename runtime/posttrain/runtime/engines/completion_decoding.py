"""Shared helpers of local engines: rendering prompts, decoding completions, and sampling arguments."""

from collections.abc import Collection, Sequence
from typing import Any

from posttrain.runtime.engines.completion_log import Completion, Prompt
from posttrain.spec.step_params.generation_params import SamplingOptions


def render_prompt(prompt: Prompt, tokenizer: Any) -> str:
    """A prompt as text. Messages are rendered with the chat template."""
    if isinstance(prompt, str):
        return prompt
    return tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)


def decode_completion(
    tokens: Sequence[int], tokenizer: Any, ends: Collection[int], stop: Sequence[str]
) -> Completion:
    """Decode generated tokens. The text ends before the first end token, and after the first stop string."""
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
    """The index after the first stop string in a text, or None."""
    ends = [text.index(word) + len(word) for word in stop if word in text]
    return min(ends) if ends else None


def generation_kwargs(sampling: SamplingOptions) -> dict[str, Any]:
    """A stage's `sampling` as arguments of transformers' `generate`."""
    shared = {
        "max_new_tokens": sampling.max_tokens,
        "num_return_sequences": sampling.n,
        # Passed even if it is 1: otherwise the model's generation_config.json applies.
        "repetition_penalty": sampling.repetition_penalty,
    }
    if sampling.temperature == 0:
        return {**shared, "do_sample": False}
    return {
        **shared,
        "do_sample": True,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p or None,
    }
