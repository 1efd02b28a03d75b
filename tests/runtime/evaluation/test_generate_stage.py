"""Generate stages: the selection of samples, and conversations of tiny models."""

import json
from typing import Any

import pyarrow.parquet as parquet
import pytest
from tests.runtime.methods.stage_harness import StageHarness, recipe

from posttrain.runtime.evaluation.sample_completions.sample_selection import _best, _pairs

DRAWN = "sampling: {max_tokens: 6, n: 4, temperature: 1.0, batch_size: 8}"


def scored(*groups: list[float | None]) -> list[list[dict[str, Any]]]:
    return [
        [
            {"prompt": "p", "completion": f"{item}{place}", "finish": "stop", "score": score}
            for place, score in enumerate(group)
        ]
        for item, group in enumerate(groups)
    ]


def test_a_pair_is_the_best_and_the_worst_that_differ():
    found = _pairs(scored([1.0, 3.0, None, 2.0], [1.0, 1.0], [None, 2.0], [None, None], [0.0, -1.0]))
    assert [(row["chosen"], row["rejected"], row["chosen_score"]) for row in found] == [
        ("01", "00", 3.0),
        ("40", "41", 0.0),
    ]


def test_the_best_is_the_first_of_equals_and_never_without_a_score():
    found = _best(scored([None, 2.0, 2.0], [None], [-1.0, -3.0]))
    assert [row["completion"] for row in found] == ["01", "20"]


@pytest.mark.slow
def test_pairs_train_a_model_by_preference(bench: StageHarness):
    text = recipe(
        f"pairs: {{generate: sft, data: sums.train, reward: solution, keep: pair, {DRAWN}}}",
        "liked: {train: dpo, model: sft, data: liked_rows, params: {max_steps: 2, batch_size: 4}}",
        f"good: {{generate: sft, data: sums.train, reward: solution, keep: {{min_score: 1.0}}, {DRAWN}}}",
    ).replace(
        "rewards:", "  liked_rows: {from: pairs, steps: [{select: [prompt, chosen, rejected]}]}\nrewards:"
    )
    made = bench.run(text)
    pairs = parquet.read_table(made["pairs"].files / "all.parquet").to_pylist()
    assert pairs
    assert all(row["chosen_score"] > row["rejected_score"] for row in pairs)
    assert made["liked"].facts["steps"] == 2
    good = parquet.read_table(made["good"].files / "all.parquet").to_pylist()
    assert 0 < len(good) < 256
    assert min(row["score"] for row in good) >= 1.0
    assert len({json.dumps(row) for row in good}) > 1


@pytest.mark.slow
def test_a_model_talks_with_itself(bench: StageHarness):
    made = bench.run(
        recipe(
            "talk: {generate: sft, data: sums.test, sampling: {max_tokens: 4, temperature: 1.0, n: 2},"
            " dialogue: {with: base, max_turns: 2, opening: '{prompt}', begin: '0'}}"
        )
    )
    rows = parquet.read_table(made["talk"].files / "all.parquet").to_pylist()
    ends = made["talk"].facts["ends"]
    assert sum(ends.values()) == 34
    assert 34 - ends.get("empty", 0) <= len(rows) <= 34  # without those in which nobody replied
    assert {row["finish"] for row in rows} <= {"turns", "length", "empty"}
    assert all(row["messages"][0] == {"role": "user", "content": row["prompt"]} for row in rows)
    roles = [turn["role"] for turn in max(rows, key=lambda row: row["turns"])["messages"]]
    assert roles == (["user", "assistant"] * 2)[: len(roles)]
