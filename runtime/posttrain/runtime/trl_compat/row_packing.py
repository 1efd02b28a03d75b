"""Packs tokenized rows as TRL does, in several processes and into mapped files.

TRL packs the batches of one `Dataset.map`: with `dataset_num_proc`, other rows share a sequence, and the bits
of the training depend on the number of processes. Here each process packs whole batches of that size.

    trl/data_utils.py:902 `pack_dataset`: `dataset = dataset.map(`
"""

from pathlib import Path
from typing import Any

from posttrain.runtime.step_context import StopRequest
from posttrain.runtime.training_rows.mapped_dataset import map_dataset

_BATCH = 1000  # of `Dataset.map`


def pack_rows(
    data: Any, parts: Any, options: tuple[int, str], cache: Path, stop: StopRequest | None = None
) -> Any:
    """The packed sequences of tokenized rows; `options` are their length and TRL's strategy.

    `parts` are what the rows depend on.
    """
    from datasets import Dataset
    from trl.data_utils import pack_dataset

    length, strategy = options

    def convert(start: int, end: int) -> tuple[Any, None]:
        rows = Dataset(data.with_format("arrow")[start:end])
        return pack_dataset(rows, length, strategy).with_format("arrow")[:], None

    key = {"packed": [length, strategy], "rows": parts}
    return map_dataset(cache, key, data.data, None, convert, lambda _: {}, stop, multiple=_BATCH).data
