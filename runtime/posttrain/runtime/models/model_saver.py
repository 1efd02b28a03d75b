"""Saves the product of a training stage: full weights or an adapter, with tokenizer and chat template."""

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.errors import StepError
from posttrain.runtime.models import adapter_conversion, peft_adapters

# Parts of the names of parameters that PEFT adds to a model.
_ADAPTER_PARTS = (".lora_", ".ia3_", ".oft_", ".vera_", ".modules_to_save.", ".trainable_tokens_delta.")


def save_trained(
    model: Any,
    tokenizer: Any,
    base: str | None,
    scratch: Path,
    out: Path,
    weights: Any = None,
    stored: Any = None,
    initial: Mapping[str, Any] | None = None,
) -> dict[str, int]:
    """Save a trained model to `out`. Returns its number of parameters and of trained parameters.

    `weights` holds the full weights if the model itself is sharded. `stored` is the dtype to save in, if the
    model was trained in a wider dtype. `initial` holds the matrices of an adapter at its start, if its
    initialization changed the base weights.
    """
    counts = parameter_counts(model)
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
        if stored is not None and weights is not None:  # save_pretrained records the dtype of the model
            config = atomic_io.read_json(scratch / "config.json")
            config["dtype"] = str(stored).removeprefix("torch.")
            atomic_io.write_json(scratch / "config.json", config, sync=False)
    else:
        peft_adapters.save_adapter(model, scratch, base, **state)
        if initial is not None:
            adapter_conversion.convert_saved_adapter(scratch, initial)
    _reset_tokenizer_state(tokenizer)
    tokenizer.save_pretrained(scratch)
    # The trainer's arguments are not part of the model.
    (scratch / "training_args.bin").unlink(missing_ok=True)
    for path in sorted(scratch.iterdir()):
        shutil.move(path, out / path.name)
    return counts


def _check_finite(weights: Iterable[tuple[str, Any]]) -> None:
    """Check the weights for NaN and infinity. The last step may cause them after its loss was checked."""
    for name, weight in weights:
        if weight.is_floating_point() and not weight.detach().isfinite().all():
            message = f"the trained weights contain NaN or infinity, for example in {name}"
            raise StepError(message, "lower the learning rate, raise warmup_steps, or train in float32")


def _cast_to_stored_dtype(weights: dict[str, Any], stored: Any) -> dict[str, Any]:
    """Cast the weights to the stored dtype. Tied weights stay tied."""
    cast: dict[int, Any] = {}
    for weight in weights.values():
        if weight.is_floating_point():
            cast.setdefault(weight.data_ptr(), weight.to(stored))
    return {
        name: cast[weight.data_ptr()] if weight.is_floating_point() else weight
        for name, weight in weights.items()
    }


def _reset_tokenizer_state(tokenizer: Any) -> None:
    """Reset padding and truncation of a fast tokenizer, which stores the last used ones in its files.

    Otherwise the files would differ in a run that is resumed after its last step.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        backend.no_padding()
        backend.no_truncation()


def parameter_counts(model: Any) -> dict[str, int]:
    """Return the number of parameters of a model without its adapter, and of trained parameters."""
    weights = list(model.named_parameters())
    return {
        "parameters": sum(_num_elements(weight) for name, weight in weights if not _is_added(name)),
        "trained_parameters": sum(_num_elements(weight) for _, weight in weights if weight.requires_grad),
    }


def _is_added(name: str) -> bool:
    return any(part in name for part in _ADAPTER_PARTS)


def _num_elements(weight: Any) -> int:
    """Return the number of elements of a weight; DeepSpeed has its own attribute for sharded weights."""
    return int(getattr(weight, "ds_numel", weight.numel()))
