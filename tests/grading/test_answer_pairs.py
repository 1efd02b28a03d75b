"""Pairs from mathematics, by class, of both polarities: each must come out as it is written down."""

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
    everything = {path.stem: read_pairs(path) for path in PAIR_FILES}
    assert sum(map(len, everything.values())) >= 900
    for name, pairs in everything.items():
        assert {row["equal"] for row in pairs} == {True, False}, name
        distinct = {(row["candidate"], row["reference"]) for row in pairs}
        assert len(distinct) == len(pairs), name
