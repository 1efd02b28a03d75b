"""Reads a metric of an eval, or of a training on held-out rows, with its value for each item."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from posttrain.runtime import atomic_io
from posttrain.runtime.duckdb_files import open_for_duckdb
from posttrain.runtime.errors import StepError
from posttrain.runtime.evaluation.statistics.metric_estimates import value_bounds
from posttrain.spec.column_types import Interval
from posttrain.spec.sql_types import quote_identifier
from posttrain.spec.step_params.train_params import EVALUATED_ROWS, EVALUATION_DIR


@dataclass(frozen=True, kw_only=True)
class MetricItems:
    """A metric: its value for each item."""

    values: Mapping[int, float]
    # The range of an item's value, if known.
    bounds: Interval | None
    # The rows of each item, if items can be batches of rows: those of a training.
    rows: Mapping[int, int] | None = None

    def scaled(self, factor: float) -> dict[int, float]:
        return {item: value * factor for item, value in self.values.items()}


def item_file(folder: Path) -> Path:
    """The file with the values of the items, in the files of a product."""
    if (folder / EVALUATION_DIR).is_dir():  # the product of a training stage
        return folder / EVALUATION_DIR / EVALUATED_ROWS
    return folder / "completions.parquet"


def read_metric_items(folder: Path, name: str) -> MetricItems:
    """The values of a metric. Items without a value are missing."""
    import duckdb

    file = item_file(folder)
    metric = atomic_io.read_json(file.with_name("metrics.json")).get(name)
    if metric is None:
        raise StepError(
            f"the evaluation has no value of `{name}`: some of its rows are NaN or infinite",
            "see the warnings of the stage, and the rows in its evaluation/rows.parquet",
        )
    column = quote_identifier(f"node:{metric['node']}")
    model = metric.get("model")  # set if the eval has several models
    query = (
        f"SELECT item, avg({column}::DOUBLE) FROM read_parquet(?) WHERE {column} IS NOT NULL"
        f"{'' if model is None else ' AND model = ?'} GROUP BY item ORDER BY item"
    )
    trained = (folder / EVALUATION_DIR).is_dir()
    with open_for_duckdb([file]) as files:
        rows = duckdb.execute(query, [files, *([] if model is None else [model])]).fetchall()
        sizes = (
            duckdb.execute("SELECT item, rows FROM read_parquet(?)", [files]).fetchall() if trained else None
        )
    return MetricItems(
        values={int(item): float(value) for item, value in rows},
        bounds=value_bounds(metric),
        rows=None if sizes is None else {int(item): int(count) for item, count in sizes},
    )
