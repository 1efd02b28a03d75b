"""Inference with reward models. A model is loaded once per process."""

import os
import random
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from posttrain.runtime.errors import StepError
from posttrain.spec.messages import template_messages, turn_text

_LOADED: dict[Path, "RewardModelScorer"] = {}
_LOADING = Lock()


@dataclass(frozen=True)
class RewardModelScorer:
    model: Any
    tokenizer: Any
    # The context length, in tokens.
    max_length: int

    def tokenize(self, prompt: Any, text: str, form: str) -> list[int]:
        """The tokens of a prompt and a text, in the format of the reward model's training."""
        template = self.tokenizer.chat_template is not None
        if form == "chat" and not template:
            message = "`prompts: chat` needs a chat template, and the reward model has none"
            raise StepError(
                message, "use `prompts: plain`, or set `chat_template` on the model it is trained from"
            )
        if form == "plain" or not template:
            whole = _plain_prompt(prompt) + text
            end = self.tokenizer.eos_token or ""
            return self.tokenizer(whole if whole.endswith(end) else whole + end)["input_ids"]
        turns = [*_prompt_turns(prompt), {"role": "assistant", "content": text}]
        rendered = self.tokenizer.apply_chat_template(turns, tokenize=False)
        return self.tokenizer(rendered, add_special_tokens=False)["input_ids"]

    def score(self, texts: Sequence[Sequence[int]]) -> list[float]:
        """The scores of one batch of texts."""
        import torch

        inputs = self.tokenizer.pad(
            {"input_ids": [list(tokens) for tokens in texts]}, padding_side="right", return_tensors="pt"
        ).to(next(self.model.parameters()).device)
        with torch.inference_mode():
            logits = self.model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits
        return logits[:, 0].float().tolist()


def _plain_prompt(prompt: Any) -> str:
    if prompt is None or isinstance(prompt, str):
        return prompt or ""
    return "".join(map(turn_text, prompt))


def _prompt_turns(prompt: Any) -> list[dict[str, Any]]:
    if prompt is None:
        return []
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    return template_messages(prompt)


def load_scorer(folder: Path) -> RewardModelScorer:
    """The reward model in a product's folder, loaded on the first call."""
    with _LOADING:  # two nodes may load at the same time
        if folder not in _LOADED:
            _LOADED[folder] = _load_from_folder(folder)
        return _LOADED[folder]


def _load_from_folder(folder: Path) -> RewardModelScorer:
    import torch

    from posttrain.runtime.models.model_loader import load_model, load_tokenizer

    _check_scorer(folder)
    _check_not_sharded()
    with _preserve_rng_state():
        model, tokenizer = load_model(folder).eval(), load_tokenizer(folder)
    if model.config.num_labels != 1:
        message = f"a reward model must have one label, and this one has {model.config.num_labels}"
        raise StepError(message, "name a stage that trains a `reward_model`, or a published reward model")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    model.config.pad_token_id = tokenizer.pad_token_id
    if torch.cuda.is_available():
        model = model.to(f"cuda:{os.environ.get('LOCAL_RANK', '0')}")
    longest = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return RewardModelScorer(model, tokenizer, longest or tokenizer.model_max_length)


@contextmanager
def _preserve_rng_state() -> Generator[None]:
    """Restore the random number generators, so that loading does not affect a training run."""
    import numpy
    import torch

    python, arrays = random.getstate(), numpy.random.get_state()
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(devices=devices):
        try:
            yield
        finally:
            random.setstate(python)
            numpy.random.set_state(arrays)


def _check_scorer(folder: Path) -> None:
    """Refuse a generative model: its scoring head would be initialized at random."""
    from posttrain.runtime.models import model_origin, peft_adapters

    task = (
        peft_adapters.adapter_task(folder)
        if peft_adapters.is_adapter(folder)
        else model_origin.model_task(folder)
    )
    if task != peft_adapters.SEQ_CLS:
        message = "the model is not a reward model: it generates text"
        raise StepError(message, "name a stage that trains a `reward_model`, or a published reward model")


def _check_not_sharded() -> None:
    """Refuse strategies that shard weights during loading: each process needs the full reward model."""
    from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled
    from transformers.integrations.fsdp import is_fsdp_enabled

    if is_deepspeed_zero3_enabled() or is_fsdp_enabled():
        message = "a reward model cannot be used with a strategy that shards the weights (fsdp, zero3)"
        raise StepError(message, "use the strategy ddp, zero1 or zero2 for the stage")
