"""Compares the verdicts for pairs of answers with the labels in `cases`, one file for each class."""

import json
from pathlib import Path

import pytest

from posttrain.grading.grader import grade_many

PAIR_FILES = sorted((Path(__file__).parent / "cases").glob("*.jsonl"))


def read_pairs(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("path", PAIR_FILES, ids=lambda path: path.stem)
def test_every_pair_of_a_class(path):
    pairs = read_pairs(path)
    verdicts = grade_many([(row["candidate"], row["reference"]) for row in pairs])
    wrong = [
        f"{row['candidate']} | {row['reference']}: {verdict.equal}, {verdict.reason}"
        for row, verdict in zip(pairs, verdicts, strict=True)
        if verdict.equal is not row["equal"]
    ]
    assert wrong == []


def test_the_set_is_large_and_of_both_polarities():
    pairs_by_class = {path.stem: read_pairs(path) for path in PAIR_FILES}
    assert sum(map(len, pairs_by_class.values())) >= 900
    for name, pairs in pairs_by_class.items():
        assert {row["equal"] for row in pairs} == {True, False}, name
        distinct = {(row["candidate"], row["reference"]) for row in pairs}
        assert len(distinct) == len(pairs), name
