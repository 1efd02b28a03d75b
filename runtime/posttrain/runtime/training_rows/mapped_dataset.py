"""Datasets whose rows are Arrow files, written by several processes and mapped into memory."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from posttrain.runtime.step_context import StopRequest
from posttrain.runtime.training_rows.arrow_cache import cached_entry, part_file
from posttrain.runtime.training_rows.row_workers import row_batches, run_parts, split_rows, worker_count

FactsT = TypeVar("FactsT")


@dataclass(frozen=True)
class MappedDataset:
    """A dataset of the `datasets` library, the key of its content, and facts about its rows."""

    data: Any
    key: str
    facts: Mapping[str, Any]


def map_dataset(
    cache: Path,
    parts: Any,
    source: Any,
    features: Mapping[str, Any] | None,
    convert: Callable[[int, int], tuple[Any, FactsT]],
    merge: Callable[[Sequence[FactsT]], Mapping[str, Any]],
    stop: StopRequest | None = None,
    *,
    multiple: int = 1,
) -> MappedDataset:
    """The dataset that `parts` determine: from the cache, or by `convert` on batches of the table `source`.

    `convert` returns the Arrow table of a batch of rows, and what was found in it. `merge` gets what was
    found, in order, and returns the facts to keep. Without `features`, all tables have the type of the first.
    Batches start at multiples of `multiple`, and end there too, except the last one.
    """
    from datasets import Dataset, concatenate_datasets

    size = source.nbytes
    ranges = split_rows(len(source), size, multiple)

    def build(folder: Path) -> Mapping[str, Any]:
        def write_part(number: int) -> list[FactsT]:
            batches = row_batches(source, *ranges[number], multiple)
            return _write(part_file(folder, number), features, convert, batches)

        with _no_progress_bars():  # of the work on single batches
            found = run_parts(write_part, len(ranges), worker_count(len(source), size), stop)
        return merge([facts for part in found for facts in part])

    entry = cached_entry(cache, parts, build)
    data = concatenate_datasets([Dataset.from_file(str(file)) for file in entry.files])
    return MappedDataset(data, entry.key, entry.facts)


def _write(
    file: Path,
    features: Mapping[str, Any] | None,
    convert: Callable[[int, int], tuple[Any, FactsT]],
    batches: Iterable[tuple[int, int]],
) -> list[FactsT]:
    """Write the tables of batches into an Arrow file."""
    import pyarrow
    from datasets import Features

    schema: Any = None if features is None else Features(features).arrow_schema
    found: list[FactsT] = []
    writer: Any = None
    with pyarrow.OSFile(str(file), "wb") as sink:
        for start, stop in batches:
            table, facts = convert(start, stop)
            if writer is None:
                schema = Features.from_arrow_schema(table.schema).arrow_schema if schema is None else schema
                writer = pyarrow.ipc.new_stream(sink, schema)
            writer.write_table(table.cast(schema))
            found.append(facts)
        writer.close()
    return found


@contextmanager
def _no_progress_bars() -> Generator[None]:
    from datasets import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    shown = not are_progress_bars_disabled()
    disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            enable_progress_bars()


def token_table(rows: Sequence[Mapping[str, Any]], features: Mapping[str, Any]) -> Any:
    """An Arrow table of rows with the types `features`."""
    import pyarrow
    from datasets import Features

    values = {name: [row[name] for row in rows] for name in features}
    return pyarrow.table(values, schema=Features(features).arrow_schema)
