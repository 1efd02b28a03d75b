"""Generates with transformers, in batches of prompts of like length."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posttrain.spec.extension import Engine

EXTENSION = Engine(
    name="transformers",
    summary="Generation with transformers, on any machine.",
    stack=("torch", "transformers", "tokenizers"),
)


@dataclass(frozen=True, slots=True)
class Completion:
    text: str
    tokens: int
    # "stop" when the model ended by itself, "length" when it was cut.
    finish: str


def generate(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[str],
    sampling: Mapping[str, Any],
    seed: int,
    progress: Callable[[int, int], None],
) -> list[list[Completion]]:
    """`samples` completions of every prompt, in the order of the prompts."""
    import torch

    model.eval()
    device = next(model.parameters()).device
    torch.manual_seed(seed)
    found: list[list[Completion]] = [[] for _ in prompts]
    order = sorted(range(len(prompts)), key=lambda index: (len(prompts[index]), index))
    batch = sampling["batch"]
    for start in range(0, len(order), batch):
        progress(start, len(order))
        chosen = order[start : start + batch]
        for index, completions in zip(
            chosen, _batch(model, tokenizer, [prompts[i] for i in chosen], sampling, device), strict=True
        ):
            found[index] = completions
    progress(len(order), len(order))
    return found


def _batch(
    model: Any, tokenizer: Any, prompts: list[str], sampling: Mapping[str, Any], device: Any
) -> list[list[Completion]]:
    import torch

    given = tokenizer(
        prompts,
        return_tensors="pt",
        padding=True,
        padding_side="left",
        add_special_tokens=False,
        return_token_type_ids=False,
    ).to(device)
    with torch.inference_mode():
        output = model.generate(
            **given, **_arguments(sampling), pad_token_id=tokenizer.pad_token_id, disable_compile=True
        )
    length = given["input_ids"].shape[1]
    samples = sampling["samples"]
    rows = [_completion(tokenizer, row[length:].tolist()) for row in output]
    return [rows[i * samples : (i + 1) * samples] for i in range(len(prompts))]


def _arguments(sampling: Mapping[str, Any]) -> dict[str, Any]:
    shared = {"max_new_tokens": sampling["max_tokens"], "num_return_sequences": sampling["samples"]}
    if sampling["temperature"] == 0:
        return {**shared, "do_sample": False}
    return {
        **shared,
        "do_sample": True,
        "temperature": sampling["temperature"],
        "top_p": sampling["top_p"],
        "top_k": 0,
    }


def _completion(tokenizer: Any, tokens: list[int]) -> Completion:
    ended = tokenizer.eos_token_id in tokens
    kept = tokens[: tokens.index(tokenizer.eos_token_id)] if ended else tokens
    text = tokenizer.decode(kept, skip_special_tokens=True)
    return Completion(text, len(kept), "stop" if ended else "length")
