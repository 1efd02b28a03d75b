"""The steps `sample`, `mix` and `split`: counts, uniformity of the order, and groups that stay together."""

from collections import Counter
from itertools import combinations, pairwise
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runtime.data.build_datasets import BuiltDatasets, build_dataset, compile_datasets

from posttrain.runtime.data.group_assignment import assign_groups
from posttrain.runtime.errors import StepError
from posttrain.runtime.events import read_events


def numbered(count: int, label: str = "a") -> list[dict[str, Any]]:
    return [{"label": label, "n": number} for number in range(count)]


def messages(step: dict[str, Any], count: int = 10) -> list[str]:
    source = {"rows": numbered(count)}
    datasets = {"b": {"from": source}, "it": {"from": source, "steps": [step]}}
    return [found.message for found in compile_datasets(datasets).diagnostics]


@pytest.mark.parametrize(
    ("amount", "count"), [(1, 1), (1.0, 40), (0.25, 10), ("25%", 10), ("100%", 40), (0.07, 3), (0.001, 1)]
)
def test_amounts_of_sample_and_mix(tmp_path: Path, amount: Any, count: int):
    sampled = build_dataset(tmp_path / "s", {"sample": amount}, rows=numbered(40))
    assert len(sampled.rows("it")) == count
    b = {"from": {"rows": numbered(40, "b")}}
    mixed = build_dataset(tmp_path / "m", {"mix": {"b": amount}}, rows=numbered(5), b=b)
    assert Counter(row["label"] for row in mixed.rows("it")) == {"a": 5, "b": count}


@pytest.mark.parametrize("value", [1.5, 0, -1, "0%", "120%", True, 10.0, "10 %"])
def test_every_step_has_the_same_messages(value: Any):
    found = [
        messages(step) for step in ({"sample": value}, {"mix": {"b": value}}, {"split": {"test": value}})
    ]
    assert found[0] == found[1] == found[2]
    assert "an integer is a number of rows" in found[0][0]


def test_a_count_above_the_rows_is_an_error_before_and_during_the_run(tmp_path: Path):
    assert messages({"mix": {"b": 11}}) == ["`mix` takes 11 rows, but `b` has only 10"]
    assert messages({"sample": 11}) == ["`sample` takes 11 rows, but the data has only 10"]
    with pytest.raises(StepError, match="`sample` takes 9 rows, but only 5 are available"):
        build_dataset(tmp_path / "s", {"where": "n < 5"}, {"sample": 9}, rows=numbered(10))
    b = {"from": {"rows": numbered(10)}, "steps": [{"where": "n < 5"}]}
    with pytest.raises(StepError, match="`mix of b` takes 9 rows, but only 5 are available"):
        build_dataset(tmp_path / "m", {"mix": {"b": 9}}, rows=numbered(10), b=b)


def test_mix_interleaves_the_rows_uniformly(tmp_path: Path):
    """A Wald-Wolfowitz runs test and a rank-sum test, both within four standard deviations."""
    b = {"from": {"rows": numbered(400, "b")}}
    found = build_dataset(tmp_path, {"mix": {"b": 300}}, rows=numbered(300), b=b).rows("it")
    labels = [row["label"] for row in found]
    runs = 1 + sum(one != other for one, other in pairwise(labels))
    mean, variance = 301, 299 * 300 / 599  # of the number of runs, for 300 and 300 in random order
    assert abs(runs - mean) < 4 * variance**0.5
    ranks = sum(place for place, label in enumerate(labels, 1) if label == "b")
    assert abs(ranks - 300 * 601 / 2) < 4 * (300 * 300 * 601 / 12) ** 0.5
    # Row k of one part is not next to row k of the other.
    place = {(row["label"], row["n"]): index for index, row in enumerate(found)}
    shared = [n for n in range(300) if ("b", n) in place]
    distances = [abs(place["a", n] - place["b", n]) for n in shared]
    assert sum(one == 1 for one in distances) < 8
    assert abs(sum(distances) / len(distances) - 200) < 40  # a third of 600 is expected
    # The order within a part is random as well.
    own = [row["n"] for row in found if row["label"] == "a"]
    rising = sum(one < other for one, other in pairwise(own))
    assert abs(rising - 149.5) < 4 * (301 / 12) ** 0.5


def test_a_small_part_is_spread_over_a_large_one(tmp_path: Path):
    b = {"from": {"rows": numbered(100, "b")}}
    labels = [
        row["label"]
        for row in build_dataset(tmp_path, {"mix": {"b": 1.0}}, rows=numbered(1000), b=b).rows("it")
    ]
    counts = [labels[start : start + 220].count("b") for start in range(0, 1100, 220)]
    assert sum(counts) == 100
    assert sum((count - 20) ** 2 / 20 for count in counts) < 18.5  # chi-squared with 4 degrees, p = .001


def test_the_order_does_not_depend_on_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def build(folder: str) -> BuiltDatasets:
        b = {"from": {"rows": numbered(3000, "b")}}
        steps = [{"mix": {"b": 0.5}}, {"sample": 0.9}, {"split": {"test": 0.1}}]
        return build_dataset(tmp_path / folder, *steps, rows=numbered(3000), b=b)

    one = build("one")
    connect = duckdb.connect
    monkeypatch.setattr(
        duckdb, "connect", lambda *_given, **_options: connect(":memory:", config={"threads": "4"})
    )
    many = build("many")
    assert [one.rows("it", part) for part in ("train", "test")] == [
        many.rows("it", p) for p in ("train", "test")
    ]


def test_identical_rows_stay_in_one_part(tmp_path: Path):
    rows = [{"a": number % 400, "b": None} for number in range(1000)]
    found = build_dataset(tmp_path, {"split": {"test": 200}}, rows=rows)
    train, test = ({row["a"] for row in found.rows("it", part)} for part in ("train", "test"))
    assert not train & test
    assert len(found.rows("it", "test")) == 200
    assert len(found.rows("it", "train")) == 800
    facts = found.facts("it")
    assert facts["split.groups"] == 400
    assert facts["split.rows_in_shared_groups"] == 1000
    assert facts["rows.test"] == facts["split.requested.test"] == 200


def test_group_by_keeps_groups_together_and_rows_without_a_group_apart(tmp_path: Path):
    rows = [{"doc": None if number >= 90 else f"d{number // 9}", "n": number} for number in range(100)]
    found = build_dataset(tmp_path, {"split": {"test": 20, "valid": 0.1, "group_by": "doc"}}, rows=rows)
    parts = {part: found.rows("it", part) for part in found.parts("it")}
    docs = {part: {row["doc"] for row in one} - {None} for part, one in parts.items()}
    assert all(not docs[one] & docs[other] for one, other in combinations(docs, 2))
    assert {part: len(one) for part, one in parts.items()} == {"train": 70, "test": 20, "valid": 10}
    assert found.facts("it")["split.groups"] == 20
    assert found.facts("it")["split.group_by"] == ["doc"]


def test_a_size_that_groups_cannot_have_is_reported(tmp_path: Path):
    rows = [{"doc": number // 40, "n": number} for number in range(200)]
    found = build_dataset(tmp_path, {"split": {"test": 50, "group_by": ["doc"]}}, rows=rows)
    assert len(found.rows("it", "test")) == 40
    warnings = [one for one in read_events(tmp_path / "datasets.it.events") if one["kind"] == "warning"]
    assert [one["message"] for one in warnings] == ["the part `test` has 40 rows instead of 50"]


def test_rows_that_are_all_identical_cannot_be_split(tmp_path: Path):
    with pytest.raises(StepError, match="1 groups cannot be split into 2 parts"):
        build_dataset(tmp_path, {"split": {"test": 5}}, rows=[{"a": 1}] * 10)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"test": 2, "group_by": "x"}, "unknown column `x`"),
        ({"group_by": "n"}, "`split` names no part"),
        ({"test": 0.5, "valid": "50%"}, "the parts take all rows"),
        ({"test": 10}, "the parts take 10 rows, but the data has only 10"),
        ({"test": 9, "valid": 0.1}, "the parts take 10 rows"),
    ],
)
def test_invalid_splits(step: dict[str, Any], message: str):
    assert message in messages({"split": step})[0]


@given(st.lists(st.integers(1, 6), min_size=2, max_size=9), st.integers(1, 20), st.integers())
def test_the_size_of_a_part_is_the_closest_that_groups_allow(sizes: list[int], target: int, seed: int):
    """Compared with the enumeration of every set of groups."""
    Random(seed).shuffle(sizes)
    chosen = assign_groups(sizes, {"test": target})["test"]
    assert len(set(chosen)) == len(chosen) < len(sizes)
    every = (sum(some) for size in range(1, len(sizes)) for some in combinations(sizes, size))
    assert abs(sum(sizes[one] for one in chosen) - target) == min(abs(one - target) for one in every)


@given(st.lists(st.integers(1, 5), min_size=4, max_size=30), st.integers(1, 10), st.integers(1, 10))
def test_parts_share_no_group(sizes: list[int], first: int, second: int):
    try:
        found = assign_groups(sizes, {"a": first, "b": second})
    except ValueError:
        return
    assert found["a"]
    assert found["b"]
    assert not set(found["a"]) & set(found["b"])
    assert len(found["a"]) + len(found["b"]) < len(sizes)
