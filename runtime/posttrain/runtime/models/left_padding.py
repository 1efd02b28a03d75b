"""Prompts of different lengths in one batch: padding on the left, and whether it changes a model's outputs.

The attention of most architectures ignores hidden tokens, and their positions start after the padding.
Recurrent layers without a mask, as in RWKV and RecurrentGemma, read the padding, without an error.
"""

from collections.abc import Callable
from inspect import signature
from typing import Any

from posttrain.runtime.models.output_changes import (
    OutputChanges,
    changes_between,
    exceed_rounding,
    probe_rows,
)

# The outputs of a model for token ids and their attention mask.
Outputs = Callable[[Any, Any], Any]


def position_arguments(model: Any, attention: Any) -> dict[str, Any]:
    """The positions that start after the padding, as arguments of a model that takes them.

    Models with learned positions, such as GPT-2, count the padding otherwise.
    """
    base = model.get_base_model() if hasattr(model, "peft_config") else model
    # Not of the object: trainers replace its `forward`.
    if "position_ids" not in signature(type(base).forward).parameters:
        return {}
    return {"position_ids": (attention.cumsum(dim=1) - 1).clamp(min=0)}


def reads_padding(model: Any, tokenizer: Any) -> bool:
    """Whether padding on the left changes the outputs of a model in memory, as `generate` calls it."""
    import torch

    def logits(tokens: Any, attention: Any) -> Any:
        positions = position_arguments(model, attention)
        return model(input_ids=tokens, attention_mask=attention, use_cache=False, **positions).logits

    changes = measure_padding(model, logits, tokenizer)
    return exceed_rounding(changes, model.config, half=model.dtype != torch.float32)


def measure_padding(model: Any, outputs: Outputs, tokenizer: Any) -> OutputChanges:
    """Measure how the outputs of a row change if its padding has other tokens, or is absent."""
    import torch

    training, device = model.training, next(model.parameters()).device
    model.eval()
    padding, other, row = (list(tokens) for tokens in probe_rows(tokenizer))

    def row_outputs(before: list[int]) -> Any:
        tokens = torch.tensor([before + row], device=device)
        attention = torch.tensor([[0] * len(before) + [1] * len(row)], device=device)
        return outputs(tokens, attention)[0, -len(row) + 1 :].float()

    try:
        with torch.no_grad():
            return changes_between(row_outputs(padding), row_outputs(other), row_outputs([]))
    finally:
        model.train(training)
