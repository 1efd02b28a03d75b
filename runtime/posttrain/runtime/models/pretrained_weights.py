"""Reads weights from a folder, and holds them to the configuration beside them.

By itself the library gives random values to whatever the files lack, and says so in its log alone.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from posttrain.runtime.errors import StepError

_MAX_SHOWN = 3
_MAX_MESSAGE_CHARS = 240
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")
_ADVICE = "fetch or save the model again: its config.json and its weights belong to different models"
# What a scorer has for itself, and a writer's head, which a scorer does without.
_HEAD_PREFIXES = ("score.", "classifier.", "lm_head.")


def load_weights(kind: Any, folder: Path, scores: bool, arguments: dict[str, Any]) -> Any:
    """The model of a folder, by this class of transformers; `scores` is whether its head may be a new one."""
    model, found = _from_pretrained(kind, folder, arguments)
    if found["mismatched_keys"]:
        name, has, expected = sorted(found["mismatched_keys"])[0]
        raise StepError(
            f"the weights do not fit config.json: {name} is {_format_shape(has)} and should be"
            f" {_format_shape(expected)}",
            _ADVICE,
        )
    lacking = [name for name in found["missing_keys"] if not (scores and name.startswith(_HEAD_PREFIXES))]
    if lacking:
        raise StepError(f"the model's files lack {_format_names(lacking)}", _ADVICE)
    beyond = _extra_layers(model, found["unexpected_keys"])
    if beyond:
        raise StepError(f"the model's config.json has no place for {_format_names(beyond)}", _ADVICE)
    return model


def _extra_layers(model: Any, names: Iterable[str]) -> list[str]:
    """The weights of layers like those that the model has, but more of them. Other surplus does no harm."""
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
            "a file is cut short or damaged: fetch or save the model again",
        ) from None
    except (ValueError, StrictDataclassError) as error:  # JSON that is none is a ValueError too
        message = f"the model's config.json cannot be used: {shorten_message(error)}"
        raise StepError(
            message, "correct it, or take a model that the installed transformers knows"
        ) from None


def shorten_message(error: Exception) -> str:
    """What a library says at length, as a sentence or two."""
    text = " ".join(str(error).split())
    return text if len(text) <= _MAX_MESSAGE_CHARS else f"{text[:_MAX_MESSAGE_CHARS]} ..."


def _format_shape(shape: Sequence[int]) -> str:
    return " x ".join(str(one) for one in shape)


def _format_names(names: Sequence[str]) -> str:
    more = ", ..." if len(names) > _MAX_SHOWN else ""
    return f"{len(names)} weights: {', '.join(sorted(names)[:_MAX_SHOWN])}{more}"
