"""A trainer that resumes on a stream loads no row before its position."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from tests.runtime.trl_compat.necessity import obsolete
from tests.runtime.trl_compat.tiny_trainer import tiny_trainer

from posttrain.runtime.trl_compat.stream_dataloader import train_on_stream

_STEPS, _ROWS = 4, 8


class Stream:
    """Rows by their places, which notes those that are loaded."""

    def __init__(self) -> None:
        self.loaded: list[int] = []

    def __len__(self) -> int:
        return _ROWS

    def __getitem__(self, place: tuple[str, int]) -> dict[str, Any]:
        self.loaded.append(place[1])
        return {"x": torch.tensor([float(place[1])])}

    def places(self) -> Iterator[tuple[str, int]]:
        return ((f"window {row // 3}", row) for row in reversed(range(_ROWS)))


class Iterable(torch.utils.data.IterableDataset[Any]):
    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    def __iter__(self) -> Iterator[Any]:
        return map(self.stream.__getitem__, self.stream.places())


def resumed_rows(folder: Path, replace: Any) -> list[int]:
    """The rows that a training loads which resumes at the step in the middle."""
    stream = Stream()
    for at in (None, str(folder / f"checkpoint-{_STEPS // 2}")):
        trainer = tiny_trainer(folder, max_steps=_STEPS, per_device_train_batch_size=2)
        replace(trainer, stream)
        stream.loaded.clear()
        trainer.train(resume_from_checkpoint=at)
    return stream.loaded


def test_a_resumed_training_loads_the_rows_that_are_left(tmp_path: Path) -> None:
    def iterate(trainer: Any, stream: Stream) -> None:
        trainer.train_dataset = Iterable(stream)

    left = list(reversed(range(_ROWS // 2)))
    assert resumed_rows(tmp_path / "theirs", iterate) != left, obsolete("stream_dataloader")
    assert resumed_rows(tmp_path / "ours", train_on_stream) == left
