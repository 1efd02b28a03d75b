"""Records the values of every node for every completion of a training run, one Parquet file per batch.

A run that resumes from a checkpoint overwrites the files of the steps after it.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from posttrain.runtime.rewards.engine.graph import Graph, Scores

_ARROW_TYPES = {"number": "float64", "integer": "int64", "boolean": "bool"}


@dataclass
class RewardTrace:
    folder: Path
    # The number of batches written in each step.
    _batch_counts: dict[int, int] = field(default_factory=dict[int, int])

    def write(
        self, step: int, prompts: Sequence[str], completions: Sequence[str], graph: Graph, scores: Scores
    ) -> None:
        import pyarrow
        import pyarrow.parquet as parquet

        columns: dict[str, Any] = {
            "step": pyarrow.array([step] * len(completions), pyarrow.int64()),
            "prompt": pyarrow.array(prompts, pyarrow.string()),
            "completion": pyarrow.array(completions, pyarrow.string()),
        }
        types = {node.id: node.type for node in graph.nodes}
        for name, values in scores.values.items():
            columns[f"node:{name}"] = _to_arrow(values, types.get(name, "number"))
        for name, reasons in scores.reasons.items():
            columns[f"reason:{name}"] = pyarrow.array(reasons, pyarrow.string())
        self.folder.mkdir(parents=True, exist_ok=True)
        parquet.write_table(pyarrow.table(columns), self._path(step), compression="zstd")

    def _path(self, step: int) -> Path:
        batch = self._batch_counts.get(step, 0)
        self._batch_counts[step] = batch + 1
        rank = os.environ.get("RANK", "0")
        return self.folder / f"step-{step:06}-{batch}-rank-{rank}.parquet"


def _to_arrow(values: Sequence[Any], type: str) -> Any:
    import pyarrow

    if type in _ARROW_TYPES:
        return pyarrow.array(values, pyarrow.type_for_alias(_ARROW_TYPES[type]))
    texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    return pyarrow.array(texts, pyarrow.string())
