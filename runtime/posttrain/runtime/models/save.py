"""Writes what a training stage made: whole weights or an adapter, with tokenizer and template."""

import shutil
from pathlib import Path
from typing import Any

from posttrain.runtime.models import adapters


def save_trained(
    model: Any, tokenizer: Any, base: str | None, scratch: Path, out: Path, weights: Any = None
) -> dict[str, int]:
    """Write a trained model to `out`; gives how many parameters it has and how many were trained.

    `weights` are given where the model itself holds but a part of them.
    """
    given = {} if weights is None else {"state_dict": weights}
    if scratch.exists():
        shutil.rmtree(scratch)
    if base is None:
        model.save_pretrained(scratch, safe_serialization=True, **given)
    else:
        adapters.save(model, scratch, base, **given)
    _as_nobody_has_used_it(tokenizer)
    tokenizer.save_pretrained(scratch)
    # Reports of the trainer's own are no part of the model.
    (scratch / "training_args.bin").unlink(missing_ok=True)
    for path in sorted(scratch.iterdir()):
        shutil.move(path, out / path.name)
    return counted(model)


def _as_nobody_has_used_it(tokenizer: Any) -> None:
    """A fast tokenizer keeps how it padded and cut last, and would write it down: a run that goes on after
    its last step has not called it since."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        backend.no_padding()
        backend.no_truncation()


def counted(model: Any) -> dict[str, int]:
    """The parameters of a model, its adapter aside, and how many are trained."""
    weights = list(model.named_parameters())
    return {
        "parameters": sum(_size(weight) for name, weight in weights if ".lora_" not in name),
        "trained_parameters": sum(_size(weight) for _, weight in weights if weight.requires_grad),
    }


def _size(weight: Any) -> int:
    """The numbers in a weight; one that DeepSpeed has divided says it by another name."""
    return int(getattr(weight, "ds_numel", weight.numel()))
