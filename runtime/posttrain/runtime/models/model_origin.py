"""Reads and writes the metadata of a model folder: its task, its origin, and its quantization."""

from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.models.peft_adapters import CAUSAL_LM, SEQ_CLS
from posttrain.spec.step_params.artifact_params import ModelStepParams

ORIGIN_FILE = "origin.json"


def write_origin(
    folder: Path, declared: ModelStepParams, revision: str | None, embeddings: int | None = None
) -> None:
    """Record the origin of a declared model, for exports of models that derive from it.

    `embeddings` is their number, if the recipe adds tokens.
    """
    about: dict[str, Any] = {"from": declared.from_, "revision": revision, "quantize": declared.quantize}
    if embeddings is not None:
        about["embeddings"] = embeddings
    atomic_io.write_json(folder / ORIGIN_FILE, about)


def read_origin(folder: Path) -> dict[str, Any]:
    """Return the recorded origin of a declared model; empty for trained and merged models."""
    return atomic_io.read_json(folder / ORIGIN_FILE) or {}


def model_task(folder: Path) -> str:
    """Return the task of full weights, from the architecture in their configuration."""
    config = atomic_io.read_json(folder / "config.json") or {}
    names = config.get("architectures") or [""]
    return SEQ_CLS if names[0].endswith("ForSequenceClassification") else CAUSAL_LM
