"""Tests the time of benchmarks in the plan."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.compiler.placement.test_estimate_parts import SFT, estimates, part

from posttrain.compiler.facts.fact_tables import load_table
from posttrain.compiler.placement.benchmark_estimate import ITEM_COUNT_UNKNOWN, TOKENS_PER_TEXT


def benchmark(settings: str) -> Mapping[str, Any]:
    stages = f"{SFT % ''}\n  scores: {{benchmark: base, {settings}}}"
    return estimates(stages, hardware="gpus: 1xH100-80GB")["scores"]


def test_the_texts_are_the_choices_of_all_items() -> None:
    found = benchmark("tasks: [arc_easy, hellaswag]")
    items = load_table("benchmark_items")["items"]
    texts = sum(items[name][0] * items[name][1] for name in ("arc_easy", "hellaswag"))
    assert texts == 4 * (2376 + 10042)
    why = part(found, "scoring")["why"]
    assert why == f"{texts / 1e3:.1f}k texts of about {TOKENS_PER_TEXT} tokens"
    assert found["seconds"] == pytest.approx(sum(one["seconds"] for one in found["parts"]), abs=1)
    assert found["dollars"] > 0
    assert "unknown_reason" not in found


def test_a_limit_and_examples_change_the_time() -> None:
    whole, limited, shown = (
        part(benchmark(f"tasks: [hellaswag]{more}"), "scoring")
        for more in ("", ", limit: 100", ", num_fewshot: 9, batch_size: 64")
    )
    assert limited["seconds"] == pytest.approx(whole["seconds"] / 100, rel=0.1, abs=0.1)
    assert shown["why"].endswith("of about 1000 tokens")


@pytest.mark.parametrize("tasks", ["gsm8k", "arc_easy, gsm8k"])
def test_tasks_without_a_known_number_of_items_leave_the_time_unknown(tasks: str) -> None:
    found = benchmark(f"tasks: [{tasks}]")
    assert found["unknown_reason"] == ITEM_COUNT_UNKNOWN
    assert "seconds" not in found
