"""Measures before the first step whether the model keeps rows apart: packed rows, and rows with padding.

Packed rows are one sequence without an attention mask. Attention starts again where the positions start
again. Other layers, such as linear attention without its kernels, mix the rows without an error.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from posttrain.runtime.errors import StepError
from posttrain.runtime.models.left_padding import measure_padding, position_arguments
from posttrain.runtime.models.output_changes import (
    OutputChanges,
    changes_between,
    exceed_rounding,
    probe_rows,
)


def check_row_isolation(trainer: Any) -> None:
    """Raise StepError if the outputs of a packed row depend on the row before it."""
    import torch

    with torch.no_grad():
        found = measure_row_isolation(
            trainer.model_wrapped, trainer.data_collator, probe_rows(trainer.processing_class)
        )
    config = trainer.model.config
    if exceed_rounding(found, config, half=_is_half(trainer)):
        raise StepError(
            f"the model (`{config.model_type}`, attention `{config._attn_implementation}`) does not keep"
            f" packed rows apart: the outputs of a row change by {max(found):.1%} of their standard deviation"
            " with the row before it",
            "set `packing: false`, and remove `padding_free: true` under `trl`; or install the kernels that"
            " keep the rows apart: flash-linear-attention and causal-conv1d for linear attention",
        )


def check_padding(trainer: Any) -> None:
    """Raise StepError if the outputs after a prompt depend on the padding before it.

    Trainers on their own completions pad prompts on the left, to generate and to train.
    """
    found = measure_padding(trainer.model_wrapped, _padded_outputs(trainer), trainer.processing_class)
    config = trainer.model.config
    if exceed_rounding(found, config, half=_is_half(trainer)):
        raise StepError(
            f"the model (`{config.model_type}`) reads the padding of prompts: the outputs of a row change by"
            f" {max(found):.1%} of their standard deviation in a batch with a longer prompt",
            "train on rows with completions (sft, dpo), whose padding comes last, or take another model",
        )


def _is_half(trainer: Any) -> bool:
    import torch

    return bool(trainer.args.bf16 or trainer.args.fp16 or trainer.model.dtype != torch.float32)


def _padded_outputs(trainer: Any) -> Any:
    """The outputs that the trainer computes for padded rows."""
    model = trainer.model_wrapped
    if hasattr(trainer.model, "value_state_dict"):  # actor and critic

        def logprobs(tokens: Any, attention: Any) -> Any:
            return model(tokens, attention, tokens.shape[1] - 1)[0].unsqueeze(-1)

        return logprobs

    def logits(tokens: Any, attention: Any) -> Any:
        positions = position_arguments(trainer.model, attention)
        return model(input_ids=tokens, attention_mask=attention, use_cache=False, **positions).logits

    return logits


def measure_row_isolation(model: Any, collator: Any, rows: Sequence[Sequence[int]]) -> OutputChanges:
    """Measure how the logits of the third row change if it follows the first row, the second one, or none."""
    training = model.training
    model.eval()
    try:
        first, other, row = (list(tokens) for tokens in rows)
        return changes_between(
            _last_row_logits(model, collator, [first, row]),
            _last_row_logits(model, collator, [other, row]),
            _last_row_logits(model, collator, [row]),
        )
    finally:
        model.train(training)


def _last_row_logits(model: Any, collator: Any, rows: Sequence[Sequence[int]]) -> Any:
    """The logits of the last of several packed rows, with the arguments that the trainer passes."""
    tokens = [token for row in rows for token in row]
    batch: Mapping[str, Any] = collator(
        [{"input_ids": tokens, "labels": tokens, "seq_lengths": [len(row) for row in rows]}]
    )
    device = next(model.parameters()).device
    inputs = {
        name: value.to(device) if hasattr(value, "to") else value
        for name, value in batch.items()
        if name != "labels"
    }
    start = len(tokens) - len(rows[-1])
    return model(**inputs, use_cache=False).logits[0, start : len(tokens)].float()
