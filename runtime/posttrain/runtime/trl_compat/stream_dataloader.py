"""Gives a trainer the rows of a stream.

TRL's trainers accept an `IterableDataset`, whose batches a resumed run loads and drops one by one. Here the
dataset has the number of rows of the whole training, and a sampler names the place of each row, so that a
resumed run skips places without loading rows.

    transformers/trainer.py:1041 `Trainer._get_train_sampler`: `def _get_train_sampler(`
"""

from collections.abc import Iterator
from typing import Any


def train_on_stream(trainer: Any, stream: Any) -> None:
    """Replace the training rows of a trainer. `stream` has rows by their places, and the order of places."""
    from torch.utils.data import Dataset, Sampler

    class StreamDataset(Dataset[Any]):
        def __len__(self) -> int:
            return len(stream)

        def __getitem__(self, place: Any) -> Any:
            return stream[place]

    class StreamSampler(Sampler[Any]):
        def __len__(self) -> int:
            return len(stream)

        def __iter__(self) -> Iterator[Any]:
            return iter(stream.places())

    def get_sampler(_: Any = None) -> Any:
        return StreamSampler()

    trainer.train_dataset = StreamDataset()
    trainer._get_train_sampler = get_sampler
