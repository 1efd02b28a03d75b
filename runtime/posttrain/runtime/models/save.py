"""Writes what a training stage made: whole weights or an adapter, with tokenizer and template."""

import shutil
from pathlib import Path
from typing import Any

from posttrain.runtime.models import adapters


def save_trained(model: Any, tokenizer: Any, base: str | None, scratch: Path, out: Path) -> dict[str, int]:
    """Write a trained model to `out`; gives how many parameters it has and how many were trained."""
    if scratch.exists():
        shutil.rmtree(scratch)
    if base is None:
        model.save_pretrained(scratch, safe_serialization=True)
    else:
        adapters.save(model, scratch, base)
    tokenizer.save_pretrained(scratch)
    # Reports of the trainer's own are no part of the model.
    (scratch / "training_args.bin").unlink(missing_ok=True)
    for path in sorted(scratch.iterdir()):
        shutil.move(path, out / path.name)
    return counted(model)


def counted(model: Any) -> dict[str, int]:
    """The parameters of a model, its adapter aside, and how many are trained."""
    weights = list(model.named_parameters())
    return {
        "parameters": sum(weight.numel() for name, weight in weights if ".lora_" not in name),
        "trained_parameters": sum(weight.numel() for _, weight in weights if weight.requires_grad),
    }
