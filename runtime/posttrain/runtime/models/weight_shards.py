"""Splits the weights of a model's folder into files of a maximum size, and checks them."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.errors import StepError

INDEX_FILE = "model.safetensors.index.json"


def split_weights(folder: Path, max_shard_size: str) -> list[str]:
    """Split the weights into files of at most this size, named as transformers names them.

    A weight is never split: one that is larger has a file of its own. Returns the names of such weights.
    """
    from huggingface_hub import split_state_dict_into_shards_factory
    from safetensors.torch import load_file, save_file

    most = parse_size(max_shard_size)
    former = sorted(folder.glob("*.safetensors"))
    weights: dict[str, Any] = {}
    for path in former:
        weights |= load_file(path)
    # Shared weights are in the files once, so no two of them are the same.
    split = split_state_dict_into_shards_factory(
        weights,
        get_storage_size=_size,
        filename_pattern="model{suffix}.safetensors",
        max_shard_size=most,
    )
    written = folder / "shards"
    written.mkdir()
    for name, chosen in split.filename_to_tensors.items():
        part = {each: weights[each].clone() for each in chosen}
        save_file(part, written / name, metadata={"format": "pt"})
    _check_written(written, split.filename_to_tensors, weights)
    for path in (*former, *folder.glob(INDEX_FILE)):
        path.unlink()
    for path in sorted(written.iterdir()):
        path.rename(folder / path.name)
    written.rmdir()
    if split.is_sharded:
        index = {"metadata": dict(split.metadata), "weight_map": dict(split.tensor_to_filename)}
        text = json.dumps(index, indent=2, sort_keys=True) + "\n"
        atomic_io.write_text(folder / INDEX_FILE, text, sync=False)
    return [name for name, weight in weights.items() if _size(weight) > most]


def parse_size(text: str) -> int:
    """The bytes of a size such as 5GB, as transformers reads it."""
    return int(float(text[:-2]) * 1000 ** ("KB", "MB", "GB", "TB").index(text[-2:]) * 1000)


def _size(weight: Any) -> int:
    return weight.numel() * weight.element_size()


def _check_written(folder: Path, files: Mapping[str, Iterable[str]], weights: Mapping[str, Any]) -> None:
    """Read the files back. Raises StepError unless they have exactly the weights."""
    from safetensors import safe_open

    found: set[str] = set()
    for file, names in files.items():
        with safe_open(folder / file, "pt") as opened:
            same = set(opened.keys()) == set(names)
            if not same or not all(opened.get_tensor(name).equal(weights[name]) for name in names):
                raise StepError(
                    f"the file {file} differs from the weights that it was written from",
                    "check the disk of the home, then run again",
                    retriable=True,
                )
        found |= set(names)
    assert found == weights.keys(), "the split leaves no weight out"
