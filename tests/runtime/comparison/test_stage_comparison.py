"""Metrics of two runs, item by item: equal rows are paired, everything else is named."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from tests.runtime.comparison.conftest import METRICS, REWARD, SAMPLING, ComparisonRun, eval_rows, read_both
from tests.runtime.report.conftest import make_step

from posttrain.runtime import atomic_io
from posttrain.runtime.comparison.stage_comparison import StageComparison, compare_run_stages
from posttrain.runtime.rows_io import write_rows
from posttrain.runtime.store import workdir

Build = Callable[..., ComparisonRun]
OLD = {n: n % 3 != 0 for n in range(60)}
NEW = {n: n % 4 != 0 for n in range(60)}


def compare(base: ComparisonRun, other: ComparisonRun) -> StageComparison:
    (found,) = compare_run_stages(*read_both(base, other))
    return found


def paired(found: StageComparison, name: str = "accuracy") -> Any:
    return next(metric for metric in found.metrics if metric.name == name)


def prompts(run: ComparisonRun) -> dict[str, dict[str, Any]]:
    """The rows of a run by prompt, read without the code under test."""
    return {row["prompt"]: row for row in parquet.read_table(run.product).to_pylist()}


def test_the_difference_and_its_interval_are_those_of_the_paired_rows(build: Build) -> None:
    """Against the rows of the parquet files, and against the interval of a paired t-test."""
    shuffled = {n: NEW[n] for n in sorted(NEW, key=lambda n: (n * 37) % 61)}
    base, other = build(OLD), build(shuffled, data="sums of another key")
    found = compare(base, other)
    old, new = prompts(base), prompts(other)
    gains = [int(new[p]["node:right"]) - int(old[p]["node:right"]) for p in old]
    metric = paired(found)
    assert found.reasons == ()
    assert metric.paired["items"] == 60
    assert metric.difference == pytest.approx(sum(gains) / 60)
    assert (metric.paired["better"], metric.paired["worse"]) == (gains.count(1), gains.count(-1))
    mean = sum(gains) / 60
    error = math.sqrt(sum((gain - mean) ** 2 for gain in gains) / 59 / 60)
    t = 2.0010  # the 97.5 % quantile with 59 degrees of freedom
    assert metric.paired["low"] == pytest.approx(mean - t * error, abs=0.03)
    assert metric.paired["high"] == pytest.approx(mean + t * error, abs=0.03)
    words = [new[p]["node:words"] - old[p]["node:words"] for p in old]
    assert paired(found, "length").difference == pytest.approx(sum(words) / 60)


def train_with_held_out_rows(folder: Path, losses: list[float]) -> ComparisonRun:
    """A run whose training was evaluated on held-out rows."""
    run = ComparisonRun(folder)
    run.begin(make_step("sft"))
    metric = {"kind": "mean", "items": len(losses), "unscored": 0, "low": None, "high": None}
    mean = sum(losses) / len(losses)
    metrics = {
        "eval_loss": {**metric, "node": "eval_loss", "value": mean},
        "eval_perplexity": {**metric, "node": "eval_perplexity", "value": math.exp(mean)},
    }
    evaluation = run.work("sft") / "files" / "evaluation"
    evaluation.mkdir(parents=True)
    rows = [{"item": n, "rows": 1, "tokens": 9, "node:eval_loss": loss} for n, loss in enumerate(losses)]
    write_rows(evaluation / "rows.parquet", rows)
    atomic_io.write_json(evaluation / "metrics.json", metrics)
    work, step = run.home.workdir(run.key("sft")), run.plan.step("sft")
    receipt = workdir.write_receipt(work, step.key, facts={"metrics": metrics}, cost={})
    workdir.commit(work, step, run.key("sft"), receipt, run.home.store)
    run.settle("sft", "done", facts={"metrics": metrics})
    run.end()
    return run


def test_a_loss_on_held_out_rows_improves_as_it_falls(tmp_path: Path) -> None:
    base = train_with_held_out_rows(tmp_path / "a", [1.0, 2.0, 3.0, 4.0])
    other = train_with_held_out_rows(tmp_path / "b", [0.5, 1.5, 2.5, 4.5])
    found = compare(base, other)
    loss, perplexity = paired(found, "eval_loss"), paired(found, "eval_perplexity")
    assert loss.difference == pytest.approx(-0.25)
    assert (loss.paired["better"], loss.paired["worse"]) == (3, 1)
    assert (perplexity.paired, perplexity.reason) == (None, "it is not a mean over items")


def test_changed_items_are_those_of_the_files_regressions_first(build: Build) -> None:
    base, other = build(OLD), build(NEW)
    changed = compare(base, other).changed
    assert changed is not None
    old, new = prompts(base), prompts(other)
    names = {True: "right", False: "wrong"}
    expected = {
        prompt: (names[old[prompt]["node:right"]], names[new[prompt]["node:right"]])
        for prompt in old
        if old[prompt]["node:right"] != new[prompt]["node:right"]
    }
    shown = [(one.prompt, (one.before.outcome, one.outcome)) for one in changed.samples if one.before]
    assert dict(shown) == expected
    assert len(shown) == len(expected) == changed.total
    kinds = [change for _, change in shown]
    assert kinds == sorted(kinds, key=lambda change: change != ("right", "wrong"))
    first = changed.samples[0]
    assert first.before is not None
    assert (first.before.completion, first.completion) == (first.reference["answer"], "sft: no idea")
    assert first.reasons == {"right": f"expected {first.reference['answer']}"}
    assert sum(changed.counts.values()) == 60


def test_items_without_a_value_in_one_run_are_counted_and_named(build: Build) -> None:
    base, other = build(OLD), build({**OLD, 5: None})
    metric = paired(compare(base, other))
    assert metric.paired["items"] == 59
    assert metric.unpaired_count == metric.paired["unpaired"] == 1
    (item,) = metric.unpaired
    assert (item.mark, item.cause) == ("A", "no value in B")
    assert "5+1=" in item.name


def test_rows_of_one_dataset_that_differ_are_left_out(build: Build) -> None:
    """The key of a dataset that is not pinned does not guarantee equal rows."""
    rows = eval_rows(OLD)
    rows[7]["prompt"] = "another"
    found = compare(build(OLD), build(rows=rows))
    metric = paired(found)
    assert (metric.paired["items"], metric.unpaired_count) == (59, 2)
    assert {(item.mark, item.cause) for item in metric.unpaired} == {
        ("A", "not in the data of B"),
        ("B", "not in the data of A"),
    }
    assert "another" in next(item.name for item in metric.unpaired if item.mark == "B")


def test_equal_rows_that_occur_twice_are_paired_in_order(build: Build) -> None:
    twice = [*eval_rows(OLD), *eval_rows(NEW)]
    for item, row in enumerate(twice):
        row["item"] = item
    found = compare(build(rows=twice), build(rows=twice, data="other"))
    assert paired(found).paired["items"] == 120
    assert (paired(found).paired["better"], paired(found).paired["worse"]) == (0, 0)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"params": {"sampling": {**SAMPLING, "temperature": 1.0}}}, "different sampler: temperature"),
        ({"params": {"reward": {**REWARD, "returns": "other"}}}, "different grader: reward graph"),
        ({"extensions": {"rewardop:equal": 2}}, "different grader: rewardop:equal"),
        ({"params": {"few_shot": {"num_fewshot": 3}}}, "different prompt: few_shot"),
        ({"params": {"environment": {"name": "guess"}}}, "different environment"),
    ],
)
def test_unequal_conditions_are_not_paired(build: Build, fields: dict[str, Any], reason: str) -> None:
    found = compare(build(OLD), build(NEW, **fields))
    assert found.reasons == (reason,)
    assert found.changed is None
    metric = paired(found)
    assert (metric.paired, metric.reason) == (None, reason)
    assert metric.difference == pytest.approx(45 / 60 - 40 / 60)


def test_the_batch_size_and_the_seed_do_not_prevent_a_comparison(build: Build) -> None:
    other = build(NEW, params={"sampling": {**SAMPLING, "batch_size": 64}, "seed": 2})
    assert compare(build(OLD), other).reasons == ()


def test_different_data_are_not_paired(build: Build) -> None:
    other = build({n: NEW[n] for n in range(40)}, data="fewer sums")
    (reason,) = compare(build(OLD), other).reasons
    assert reason == "different eval data: 60 rows in A, 40 rows in B, 40 of them equal"


def test_a_metric_with_another_definition_is_not_paired(build: Build) -> None:
    params = {"metrics": {**METRICS, "accuracy": {"kind": "mean", "node": "right"}}}
    found = compare(build(OLD), build(NEW, params=params))
    assert paired(found).reason == "the metric is defined differently"
    assert paired(found, "length").paired is not None


def test_a_run_without_evals_and_damaged_products_are_said(build: Build) -> None:
    base = build(OLD)
    assert compare(base, build()).reasons == ("only A has metrics of this stage",)
    damaged = build(NEW)
    damaged.product.write_bytes(b"PAR1" + b"x" * (damaged.product.stat().st_size - 4))
    (reason,) = compare(base, damaged).reasons
    assert reason.startswith("the rows are not readable")
    damaged.product.unlink()
    assert compare(base, damaged).reasons == ("the product of B is not in the store",)
    assert paired(compare(base, damaged)).difference == pytest.approx(45 / 60 - 40 / 60)
