"""What a model's folder says about itself: what it does, where it came from, how it is loaded."""

from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.models.peft_adapters import CAUSAL_LM, SEQ_CLS

ORIGIN_FILE = "origin.json"


def write_origin(folder: Path, declared: dict[str, Any], revision: str | None) -> None:
    """Note what a declared model was taken from, for those who export what stands on it."""
    about = {"from": declared["from"], "revision": revision, "quantize": declared["quantize"]}
    atomic_io.write_json(folder / ORIGIN_FILE, about)


def read_origin(folder: Path) -> dict[str, Any]:
    """The note of a declared model; empty for what was trained or merged."""
    return atomic_io.read_json(folder / ORIGIN_FILE) or {}


def model_task(folder: Path) -> str:
    """What whole weights do, by the class that their configuration names."""
    config = atomic_io.read_json(folder / "config.json") or {}
    names = config.get("architectures") or [""]
    return SEQ_CLS if names[0].endswith("ForSequenceClassification") else CAUSAL_LM
