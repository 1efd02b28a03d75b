"""Loads weights from a folder, and checks them against the model's configuration.

Without the check, transformers initializes missing weights at random, and reports that only in its log.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from posttrain.runtime.errors import StepError

_MAX_SHOWN = 3
_MAX_MESSAGE_CHARS = 240
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")
_ADVICE = "download or save the model again: its config.json and its weights belong to different models"
# The head of a scorer, and the output layer of a language model, which a scorer does not have.
_HEAD_PREFIXES = ("score.", "classifier.", "lm_head.")


def load_weights(kind: Any, folder: Path, scores: bool, arguments: dict[str, Any]) -> Any:
    """Load the model of a folder with a class of transformers; with `scores`, its head may be missing."""
    model, info = _from_pretrained(kind, folder, arguments)
    if info["mismatched_keys"]:
        name, actual, expected = sorted(info["mismatched_keys"])[0]
        raise StepError(
            f"the weights do not match config.json: {name} has the shape {_format_shape(actual)} instead of"
            f" {_format_shape(expected)}",
            _ADVICE,
        )
    missing = [name for name in info["missing_keys"] if not (scores and name.startswith(_HEAD_PREFIXES))]
    if missing:
        raise StepError(f"the model's files lack {_format_names(missing)}", _ADVICE)
    extra = _extra_layers(model, info["unexpected_keys"])
    if extra:
        raise StepError(
            f"the model's files contain {_format_names(extra)} that config.json does not declare", _ADVICE
        )
    return model


def _extra_layers(model: Any, names: Iterable[str]) -> list[str]:
    """Return unexpected weights that belong to additional layers. Other extra weights are harmless."""
    known = {_NUMBER.sub("#", name) for name, _ in model.named_parameters()}
    return [name for name in names if _NUMBER.sub("#", name) in known]


def _from_pretrained(kind: Any, folder: Path, arguments: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    from huggingface_hub.errors import StrictDataclassError
    from safetensors import SafetensorError

    try:
        return kind.from_pretrained(
            folder,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            ignore_mismatched_sizes=True,  # they are reported below, by name
            output_loading_info=True,
            **arguments,
        )
    except SafetensorError as error:
        raise StepError(
            f"the model's weights cannot be read: {error}",
            "a file is incomplete or corrupt: download or save the model again",
        ) from None
    except (ValueError, StrictDataclassError) as error:  # invalid JSON is also a ValueError
        message = f"the model's config.json is invalid: {shorten_message(error)}"
        raise StepError(
            message, "fix it, or use a model that the installed transformers release supports"
        ) from None


def shorten_message(error: Exception) -> str:
    """Collapse whitespace in a library's error message and limit its length."""
    text = " ".join(str(error).split())
    return text if len(text) <= _MAX_MESSAGE_CHARS else f"{text[:_MAX_MESSAGE_CHARS]} ..."


def _format_shape(shape: Sequence[int]) -> str:
    return " x ".join(str(one) for one in shape)


def _format_names(names: Sequence[str]) -> str:
    more = ", ..." if len(names) > _MAX_SHOWN else ""
    return f"{len(names)} weights: {', '.join(sorted(names)[:_MAX_SHOWN])}{more}"
