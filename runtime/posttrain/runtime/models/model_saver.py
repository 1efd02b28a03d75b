"""Writes what a training stage made: whole weights or an adapter, with tokenizer and template."""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.errors import StepError
from posttrain.runtime.models import peft_adapters


def save_trained(
    model: Any,
    tokenizer: Any,
    base: str | None,
    scratch: Path,
    out: Path,
    weights: Any = None,
    stored: Any = None,
) -> dict[str, int]:
    """Write a trained model to `out`; gives how many parameters it has and how many were trained.

    `weights` are given where the model itself holds but a part of them, `stored` where they were trained in
    something wider than they are to be written in.
    """
    _check_finite(model.named_parameters() if weights is None else weights.items())
    if stored is not None:
        if weights is None:
            model = model.to(stored)
        else:
            weights = _cast_to_stored_dtype(weights, stored)
    state = {} if weights is None else {"state_dict": weights}
    if scratch.exists():
        shutil.rmtree(scratch)
    if base is None:
        model.save_pretrained(scratch, safe_serialization=True, **state)
        if stored is not None and weights is not None:  # it goes by the model's own
            config = atomic_io.read_json(scratch / "config.json")
            config["dtype"] = str(stored).removeprefix("torch.")
            atomic_io.write_json(scratch / "config.json", config, sync=False)
    else:
        peft_adapters.save_adapter(model, scratch, base, **state)
    _reset_tokenizer_state(tokenizer)
    tokenizer.save_pretrained(scratch)
    # Reports of the trainer's own are no part of the model.
    (scratch / "training_args.bin").unlink(missing_ok=True)
    for path in sorted(scratch.iterdir()):
        shutil.move(path, out / path.name)
    return parameter_counts(model)


def _check_finite(weights: Iterable[tuple[str, Any]]) -> None:
    """The last step may have broken what its own loss could not show."""
    for name, weight in weights:
        if weight.is_floating_point() and not weight.detach().isfinite().all():
            message = f"the trained weights are no numbers: {name} among them"
            raise StepError(message, "lower the learning rate, raise warmup_steps, or train in float32")


def _cast_to_stored_dtype(weights: dict[str, Any], stored: Any) -> dict[str, Any]:
    """The weights in what they are stored in; those that are one under two names stay one."""
    found: dict[int, Any] = {}
    for weight in weights.values():
        if weight.is_floating_point():
            found.setdefault(weight.data_ptr(), weight.to(stored))
    return {
        name: found[weight.data_ptr()] if weight.is_floating_point() else weight
        for name, weight in weights.items()
    }


def _reset_tokenizer_state(tokenizer: Any) -> None:
    """A fast tokenizer keeps how it padded and cut last, and would write it down: a run that goes on after
    its last step has not called it since."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        backend.no_padding()
        backend.no_truncation()


def parameter_counts(model: Any) -> dict[str, int]:
    """The parameters of a model, its adapter aside, and how many are trained."""
    weights = list(model.named_parameters())
    return {
        "parameters": sum(_num_elements(weight) for name, weight in weights if ".lora_" not in name),
        "trained_parameters": sum(_num_elements(weight) for _, weight in weights if weight.requires_grad),
    }


def _num_elements(weight: Any) -> int:
    """The numbers in a weight; one that DeepSpeed has divided says it by another name."""
    return int(getattr(weight, "ds_numel", weight.numel()))
