"""Generates one completion for each prompt, up to an end token or the maximum length."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from posttrain.runtime.models.eos_tokens import eos_token_ids
from posttrain.runtime.models.recipe_decoding import recipe_decoding
from posttrain.runtime.prompt_tokenization import tokenize_prompts


@dataclass(frozen=True)
class GeneratedCompletions:
    """Prompts with their completions: prompts are padded on the left, completions on the right."""

    tokens: Any
    attention: Any
    # 1.0 on each token that the policy has generated, including the end token.
    mask: Any
    # True if a completion ended with an end token, False if it was truncated.
    ended: Any

    @property
    def completion_length(self) -> int:
        """The number of columns that hold completions."""
        return self.mask.shape[1]

    @property
    def completions(self) -> Any:
        return self.tokens[:, -self.completion_length :]

    def completion_ids(self) -> list[list[int]]:
        """Return the tokens of each completion, without padding."""
        lengths = self.attention[:, -self.completion_length :].sum(dim=1).tolist()
        rows = zip(self.completions.tolist(), lengths, strict=True)
        return [row[:length] for row, length in rows]

    def texts(self, tokenizer: Any) -> list[str]:
        return tokenizer.batch_decode(self.completion_ids(), skip_special_tokens=True)


def generate_completions(
    model: Any, tokenizer: Any, prompts: Sequence[Any], sampling: dict[str, Any], seed: int, device: Any
) -> GeneratedCompletions:
    """Generate completions of all prompts in one batch. Sampling depends only on the seed."""
    prompt_ids = tokenize_prompts(prompts, tokenizer)
    return generate_after(model, tokenizer, prompt_ids, sampling, seed, device)


def generate_after(
    model: Any, tokenizer: Any, prompt_ids: list[list[int]], sampling: dict[str, Any], seed: int, device: Any
) -> GeneratedCompletions:
    """Generate a completion after each of these token sequences."""
    import torch

    inputs = tokenizer.pad({"input_ids": prompt_ids}, return_tensors="pt", padding_side="left").to(device)
    ends = eos_token_ids(model, tokenizer)
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices), torch.no_grad(), recipe_decoding(model):
        torch.manual_seed(seed)
        tokens = model.generate(
            input_ids=inputs["input_ids"],
            attention_mask=inputs["attention_mask"],
            **sampling,
            do_sample=True,
            top_k=0,
            use_cache=True,
            eos_token_id=ends,
            pad_token_id=tokenizer.pad_token_id,
            disable_compile=True,
        )
    return mask_completions(tokens, inputs["attention_mask"], ends)


def mask_completions(tokens: Any, attention: Any, ends: Sequence[int]) -> GeneratedCompletions:
    """Find the end of each completion, in tokens of prompts and completions, and build the masks."""
    import torch

    completions = tokens[:, attention.shape[1] :]
    end = torch.isin(completions, torch.tensor(list(ends), device=tokens.device))
    before = end.long().cumsum(dim=1) - end.long()
    mask = before == 0
    whole = torch.cat([attention, mask.to(attention.dtype)], dim=1)
    return GeneratedCompletions(tokens, whole, mask.float(), end.any(dim=1))
