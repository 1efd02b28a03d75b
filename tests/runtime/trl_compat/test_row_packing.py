"""Packed sequences do not depend on the number of processes."""

import random
from pathlib import Path

import pytest
from tests.runtime.trl_compat.necessity import obsolete

from posttrain.runtime.training_rows import row_workers
from posttrain.runtime.trl_compat.row_packing import pack_rows


@pytest.mark.parametrize("strategy", ["bfd", "bfd_split", "wrapped"])
def test_rows_are_packed_as_by_one_process_of_trl(
    strategy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datasets import Dataset
    from trl.data_utils import pack_dataset

    drawn = random.Random(1)
    ids = [[drawn.randint(1, 99) for _ in range(drawn.randint(1, 20))] for _ in range(2500)]
    data = Dataset.from_dict({"input_ids": ids, "labels": ids})
    expected = pack_dataset(data, 32, strategy).to_list()
    divided = pack_dataset(data, 32, strategy, map_kwargs={"num_proc": 2}).to_list()
    assert divided != expected, obsolete("row_packing")
    monkeypatch.setattr(row_workers, "_SMALL_ROWS", 0)
    monkeypatch.setattr(row_workers, "available_cpus", lambda: 2)
    found = pack_rows(data, ["key"], (32, strategy), tmp_path)
    assert found.to_list() == expected
