"""The data op `repeat`: order of the copies, parts, weight in a mixture, row counts."""

from collections import Counter
from pathlib import Path

import pytest
from tests.runtime.data.build_datasets import BuiltDatasets, build_dataset, compile_datasets

ROWS = [{"q": str(n)} for n in range(5)]


def test_all_rows_come_again_in_their_order(tmp_path: Path) -> None:
    found = build_dataset(tmp_path, {"repeat": {"times": 3}}, rows=ROWS)
    assert [row["q"] for row in found.rows("it")] == list("01234") * 3
    assert found.columns("it") == {"q": "text"}


def test_parts_stay_apart(tmp_path: Path) -> None:
    found = build_dataset(tmp_path, {"split": {"test": 2}}, {"repeat": {"times": 2}}, rows=ROWS)
    test, train = (Counter(row["q"] for row in found.rows("it", part)) for part in ("test", "train"))
    assert (len(test), len(train)) == (2, 3)
    assert set(test.values()) == set(train.values()) == {2}
    assert not test.keys() & train.keys()


def test_a_repeated_set_weighs_more_in_a_mixture(tmp_path: Path) -> None:
    small = {"from": {"rows": ROWS}, "steps": [{"repeat": {"times": 4}}]}
    others = {"from": {"rows": [{"q": "x"}]}, "steps": [{"mix": {"small": 1.0}}]}
    found = BuiltDatasets(tmp_path, {"small": small, "it": others})
    assert Counter(row["q"] for row in found.rows("it")) == {"x": 1, **dict.fromkeys("01234", 4)}


def test_the_compiler_knows_how_many_there_are() -> None:
    steps = [{"repeat": {"times": 3}}, {"sample": 16}]
    found = compile_datasets({"it": {"from": {"rows": ROWS}, "steps": steps}})
    assert [one.code for one in found.diagnostics] == ["PT0406"]
    assert "the data has only 15" in found.diagnostics[0].message


@pytest.mark.parametrize("times", [1, 1001, "twice"])
def test_times_are_bounded(times: object) -> None:
    found = compile_datasets({"it": {"from": {"rows": ROWS}, "steps": [{"repeat": {"times": times}}]}})
    assert found.plan is None
