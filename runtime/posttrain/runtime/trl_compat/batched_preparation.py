"""Tokenizes the rows of TRL's preference trainers in batches, in several processes and into mapped files.

TRL maps the whole dataset several times, row by row. KTO pairs completions across the rows of a micro-batch,
so with `dataset_num_proc` the bits of the training depend on the number of processes. Here the trainer's own
method runs on batches of rows in each process. KTO's pairing follows, over the micro-batches of one process.

    trl/trainer/dpo_trainer.py:1046 `DPOTrainer._prepare_dataset`: `args.dataset_num_proc`
    trl/trainer/kto_trainer.py:1151 `KTOTrainer._prepare_dataset`: `= [examples[`
"""

import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from posttrain.runtime.step_context import StopRequest
from posttrain.runtime.training_rows.mapped_dataset import map_dataset

# The names by which the trainers prepare their datasets.
TRAIN, EVAL = "train", "eval"
# Arguments of the trainers that change tokens, or which rows stay.
_ARGUMENTS = ("max_length", "truncation_mode", "max_prompt_length", "max_completion_length")
# Columns of the rows that the trainers read in addition to token ids.
_OTHER_COLUMNS = ("label",)
_MAIN_FIRST = "global_then_local_main_first"


def batched_preparation_trainer(
    base: Any, prepared: Mapping[str, Any], tokenizer_key: Any, stop: StopRequest | None = None
) -> Any:
    """Derive a trainer class that tokenizes rows in batches.

    `prepared` are the `PreparedRows` of the trainer's datasets, by the names that it prepares them under.
    """

    class BatchedPreparationTrainer(base):
        def _prepare_dataset(self, dataset: Any, processing_class: Any, args: Any, dataset_name: str) -> Any:
            rows, prepare = prepared[dataset_name], super()._prepare_dataset
            pairs_completions = getattr(self, "calculate_KL", False)

            def convert(start: int, end: int) -> tuple[Any, None]:
                batch = prepare(_in_memory(dataset, start, end), processing_class, args, "rows")
                return _token_table(batch, dataset.column_names), None

            key = {
                "trainer": base.__name__,
                "rows": [rows.key, dataset.column_names],
                "tokenizer": tokenizer_key,
                "arguments": {name: getattr(args, name, None) for name in _ARGUMENTS},
            }
            with _alone(base), _without_pairing(self):
                mapped = map_dataset(rows.cache, key, dataset.data, None, convert, lambda _: {}, stop)
            if not pairs_completions:
                return mapped.data
            return _paired_completions(
                mapped.data, [mapped.key], args.per_device_train_batch_size, rows.cache
            )

    return BatchedPreparationTrainer


def _in_memory(data: Any, start: int, stop: int) -> Any:
    """A batch of rows as a dataset of its own, which writes no files."""
    from datasets import Dataset

    return Dataset(data.with_format("arrow")[start:stop], info=data.info.copy())


def _token_table(batch: Any, before: list[str]) -> Any:
    """The columns that the collators read."""
    import pyarrow

    names = [name for name in batch.column_names if name not in before or name in _OTHER_COLUMNS]
    table = batch.select_columns(names).with_format("arrow")[:]
    ids = pyarrow.list_(pyarrow.int32())
    return pyarrow.table(
        {name: table[name].cast(ids if name.endswith("_ids") else table[name].type) for name in names}
    )


def _paired_completions(data: Any, parts: Any, size: int, cache: Any) -> Any:
    """The rows with the completion of the row before each, in batches of `size`, for KTO's KL divergence."""
    import pyarrow

    def convert(start: int, stop: int) -> tuple[Any, None]:
        table = data.with_format("arrow")[start:stop].combine_chunks()
        order = [
            last
            for first in range(0, stop - start, size)
            for last in _rotated(first, min(first + size, stop - start))
        ]
        paired = table["completion_ids"].take(pyarrow.array(order, pyarrow.int64()))
        return table.append_column("KL_completion_ids", paired), None

    key = {"paired": parts, "size": size}
    return map_dataset(cache, key, data.data, None, convert, lambda _: {}, multiple=size).data


def _rotated(start: int, stop: int) -> list[int]:
    return [stop - 1, *range(start, stop - 1)]


@contextmanager
def _alone(base: Any) -> Generator[None]:
    """Let processes prepare rows without waiting for those of other ranks, which prepare none."""
    module = sys.modules[base._prepare_dataset.__module__]
    original = getattr(module, _MAIN_FIRST)
    setattr(module, _MAIN_FIRST, nullcontext)
    try:
        yield
    finally:
        setattr(module, _MAIN_FIRST, original)


@contextmanager
def _without_pairing(trainer: Any) -> Generator[None]:
    original = getattr(trainer, "calculate_KL", None)
    if original is None:
        yield
        return
    trainer.calculate_KL = False
    try:
        yield
    finally:
        trainer.calculate_KL = original
