"""Loads models that earlier steps made."""

from pathlib import Path
from typing import Any

from posttrain.runtime.context import Context


def load_for_training(context: Context) -> tuple[Any, Any]:
    """The model that a stage trains, with its tokenizer."""
    context.events.emit("phase", name="loading")
    return load_model(context.inputs["model"]), load_tokenizer(context.inputs["model"])


def load_model(folder: Path) -> Any:
    """A model's weights, from safetensors only and without code of its own."""
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(
        folder, use_safetensors=True, trust_remote_code=False, local_files_only=True
    )


def load_tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
