"""Models in the format of the CNCF model specification (ModelPack): media types and configuration."""

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, cast

from posttrain.runtime.artifacts import media_types
from posttrain.runtime.atomic_io import read_json
from posttrain.spec.canonical_json import canonical_json

_WEIGHTS = (".safetensors", ".bin", ".gguf", ".pt", ".npz")
_DOCUMENTS = (".md",)


def is_model(files: Mapping[str, Any]) -> bool:
    """Whether the files of a product are the weights of a model or of an adapter."""
    configured = "config.json" in files or "adapter_config.json" in files
    return configured and any(PurePosixPath(name).suffix in _WEIGHTS for name in files)


def layer_type(name: str) -> str:
    """The media type of a file of a model. What is below `.posttrain/` describes its origin."""
    if name.startswith(".posttrain/"):
        return media_types.MODEL_DOC
    ending = PurePosixPath(name).suffix
    if ending in _WEIGHTS:
        return media_types.MODEL_WEIGHT
    return media_types.MODEL_DOC if ending in _DOCUMENTS else media_types.MODEL_WEIGHT_CONFIG


def model_config(name: str, folder: Path, digests: list[str], facts: Mapping[str, Any]) -> bytes:
    """The configuration blob. It has no times, so that equal models have equal digests."""
    found = read_json(folder / "config.json")
    described = cast(dict[str, Any], found) if isinstance(found, dict) else {}
    config: dict[str, Any] = {"format": "safetensors"}
    if isinstance(described.get("model_type"), str):
        config["architecture"] = described["model_type"]
    dtype = described.get("dtype") or described.get("torch_dtype")
    if isinstance(dtype, str):
        config["precision"] = dtype
    if isinstance(facts.get("parameters"), int):
        config["paramSize"] = str(facts["parameters"])
    value = {
        "descriptor": {"name": name},
        "config": config,
        "modelfs": {"type": "layers", "diffIds": digests},
    }
    return canonical_json(value).encode()
