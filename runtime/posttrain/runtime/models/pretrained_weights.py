"""Loads weights from a folder, and checks them against the model's configuration.

Without the check, transformers initializes missing weights at random and drops additional ones, and
reports that only in its log.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from posttrain.runtime.errors import StepError

_MAX_SHOWN = 3
_MAX_MESSAGE_CHARS = 240
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")
_ADVICE = "download or save the model again: its config.json and its weights belong to different models"
_LOST_ADVICE = "use a text-only causal language model of which transformers loads every weight"
# The head of a scorer, and the output layer of a language model, which a scorer does not have.
_HEAD_PREFIXES = ("score.", "classifier.", "lm_head.")
# Constants that older releases of transformers saved: a model computes them.
_CONSTANTS = re.compile(r"(^|\.)(inv_freq|masked_bias|position_ids|attn\.bias|attention\.bias)$")


def load_weights(kind: Any, folder: Path, has_new_head: bool, arguments: dict[str, Any]) -> Any:
    """Load the model of a folder with a class of transformers; `has_new_head`: a language model as scorer."""
    model, info = _from_pretrained(kind, folder, arguments)
    if info["mismatched_keys"]:
        name, actual, expected = sorted(info["mismatched_keys"])[0]
        raise StepError(
            f"the weights do not match config.json: {name} has the shape {_format_shape(actual)} instead of"
            f" {_format_shape(expected)}",
            _ADVICE,
        )
    missing = [
        name for name in info["missing_keys"] if not (has_new_head and name.startswith(_HEAD_PREFIXES))
    ]
    if missing:
        raise StepError(f"the model's files lack {format_names(missing)}", _ADVICE)
    _check_all_loaded(model, [name for name in info["unexpected_keys"] if not _may_lack(name, has_new_head)])
    return model


def _may_lack(name: str, has_new_head: bool) -> bool:
    """Whether a model may lack a weight of its files; a scorer has no output layer."""
    return _CONSTANTS.search(name) is not None or (has_new_head and name.startswith("lm_head."))


def _check_all_loaded(model: Any, extra: Sequence[str]) -> None:
    """Raise StepError for weights of the files that the model does not have: its products would lack them."""
    known = {_NUMBER.sub("#", name) for name, _ in model.named_parameters()}
    layers = [name for name in extra if _NUMBER.sub("#", name) in known]
    if layers:
        raise StepError(
            f"the model's files contain {format_names(layers)} that config.json does not declare", _ADVICE
        )
    if extra:
        kind = type(model).__name__
        raise StepError(
            f"{kind} does not load {format_names(extra)}; the products would lack them", _LOST_ADVICE
        )


def ignored_weights(model: Any, folder: Path) -> list[str]:
    """The weights in a folder that transformers skips for this architecture, such as prediction heads."""
    from safetensors import safe_open

    patterns = [re.compile(pattern) for pattern in model._keys_to_ignore_on_load_unexpected or ()]
    found: list[str] = []
    for path in sorted(folder.glob("*.safetensors")) if patterns else ():
        with safe_open(path, "pt") as file:
            names: list[str] = file.keys()
        found += [name for name in names if any(one.search(name) for one in patterns)]
    return [name for name in found if not _CONSTANTS.search(name)]


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


def format_names(names: Sequence[str]) -> str:
    more = ", ..." if len(names) > _MAX_SHOWN else ""
    return f"{len(names)} weights: {', '.join(sorted(names)[:_MAX_SHOWN])}{more}"
