"""Gates over synthetic data: each verdict, the recorded numbers, and several conditions."""

import json
from pathlib import Path

import pytest
from tests.runtime.gates.fake_eval_products import (
    at_least,
    better_than,
    condition,
    rate,
    run_gate,
    write_eval_product,
)

from posttrain.runtime.events import read_events


@pytest.mark.parametrize(
    ("right", "verdict"), [(95, "pass"), (85, "inconclusive"), (75, "inconclusive"), (60, "fail")]
)
def test_a_rate_against_a_threshold(right: int, verdict: str, tmp_path: Path):
    after = write_eval_product(tmp_path / "after", right=rate(right, 100))
    result = run_gate(tmp_path / "gate", {"after": after}, at_least(0.8))
    (found,) = result["conditions"]
    assert result["verdict"] == found["verdict"] == verdict
    assert found["value"] == right / 100
    assert found["low"] < found["value"] < found["high"]
    assert found["items"] == 100
    assert found["method"] == "Wilson, exact binomial"


@pytest.mark.parametrize(("right", "verdict"), [(2, "pass"), (9, "inconclusive"), (30, "fail")])
def test_the_other_side(right: int, verdict: str, tmp_path: Path):
    after = write_eval_product(tmp_path / "after", right=rate(right, 100))
    result = run_gate(tmp_path / "gate", {"after": after}, condition("at_most", "right", threshold=0.1))
    assert result["verdict"] == verdict


@pytest.mark.parametrize(
    ("up", "down", "verdict"),
    [(20, 3, "pass"), (12, 8, "inconclusive"), (3, 20, "fail"), (4, 0, "pass"), (3, 0, "inconclusive")],
)
def test_a_comparison_item_by_item(up: int, down: int, verdict: str, tmp_path: Path):
    """Four improvements without a regression are significant: few other items differ."""
    same = [[1.0]] * 77
    before = write_eval_product(tmp_path / "before", right=[[0.0]] * up + [[1.0]] * down + same)
    after = write_eval_product(tmp_path / "after", right=[[1.0]] * up + [[0.0]] * down + same)
    result = run_gate(tmp_path / "gate", {"before": before, "after": after}, better_than())
    (found,) = result["conditions"]
    assert result["verdict"] == verdict
    assert (found["better"], found["worse"], found["items"]) == (up, down, 77 + up + down)
    assert found["method"] == "exact unconditional test of pairs"
    assert found["baseline_value"] == pytest.approx((77 + down) / (77 + up + down))


@pytest.mark.parametrize(
    ("changed", "margin", "verdict"),
    [(10, -0.05, "pass"), (10, -0.005, "inconclusive"), (10, 0.05, "fail"), (40, -0.02, "inconclusive")],
)
def test_a_loss_that_is_tolerated(changed: int, margin: float, verdict: str, tmp_path: Path):
    """Equally many improvements and regressions: no difference, within the precision of the items."""
    same, some = [[1.0]] * (600 - 2 * changed), [[1.0]] * changed
    before = write_eval_product(tmp_path / "before", right=[[0.0]] * changed + some + same)
    after = write_eval_product(tmp_path / "after", right=some + [[0.0]] * changed + same)
    result = run_gate(tmp_path / "gate", {"before": before, "after": after}, better_than(margin))
    (found,) = result["conditions"]
    assert result["verdict"] == verdict
    assert found["threshold"] == found["margin"] == margin
    assert found["method"] == "exact unconditional test of pairs"


def test_items_that_only_one_has_are_left_out_and_counted(tmp_path: Path):
    before = write_eval_product(tmp_path / "before", right=[[0.0]] * 30 + [[None]] * 4 + [[1.0]])
    after = write_eval_product(tmp_path / "after", right=[[1.0]] * 34 + [[None]])
    (found,) = run_gate(tmp_path / "gate", {"before": before, "after": after}, better_than())["conditions"]
    assert (found["items"], found["better"], found["unpaired"]) == (30, 30, 5)


def test_several_completions_of_a_prompt_are_no_more_prompts(tmp_path: Path):
    """25 prompts, each always correct or always wrong: 8 completions have no more information than one."""
    many = write_eval_product(tmp_path / "many", right=[[1.0] * 8] * 24 + [[0.0] * 8])
    one = write_eval_product(tmp_path / "one", right=rate(24, 25))
    result = [
        run_gate(tmp_path / f"gate-{n}", {"after": path}, at_least(0.9)) for n, path in enumerate((many, one))
    ]
    assert [found["verdict"] for found in result] == ["inconclusive", "inconclusive"]
    assert result[0]["conditions"][0]["low"] == result[1]["conditions"][0]["low"]
    spread = write_eval_product(tmp_path / "spread", right=[[1.0] * 7 + [0.0]] * 100)
    scattered = [[1.0] * 8] * 50 + [[1.0] * 6 + [0.0] * 2] * 50
    (found,) = run_gate(
        tmp_path / "gate-3", {"after": write_eval_product(tmp_path / "s", right=scattered)}, at_least(0.8)
    )["conditions"]
    assert found["method"] == "test for bounded means"
    assert run_gate(tmp_path / "gate-4", {"after": spread}, at_least(0.8))["verdict"] == "pass"


def test_nothing_scored_decides_nothing(tmp_path: Path):
    after = write_eval_product(tmp_path / "after", right=[[None]] * 10)
    result = run_gate(tmp_path / "gate", {"after": after}, at_least(0.1))
    assert result["verdict"] == "inconclusive"
    assert result["conditions"][0]["items"] == 0


def test_one_value_has_no_interval(tmp_path: Path):
    after = measuring_a_mean(write_eval_product(tmp_path / "after", right=[[0.5]]))
    (found,) = run_gate(tmp_path / "gate", {"after": after}, at_least(0.1))["conditions"]
    assert (found["verdict"], found["low"], found["value"]) == ("inconclusive", None, 0.5)


def test_all_conditions_must_hold(tmp_path: Path):
    after = write_eval_product(tmp_path / "after", right=rate(95, 100), brief=rate(50, 100))
    result = run_gate(tmp_path / "gate", {"after": after}, at_least(0.8), at_least(0.45, "brief"))
    assert [one["verdict"] for one in result["conditions"]] == ["pass", "inconclusive"]
    assert result["verdict"] == "inconclusive"
    events = [one for one in read_events(tmp_path / "gate" / "events.jsonl") if one["kind"] == "warning"]
    assert [one["message"] for one in events] == ["brief at_least: inconclusive"]
    assert "over 100 items" in events[0]["advice"]


def test_chance_among_several_conditions_fails_no_gate(tmp_path: Path):
    """One of five conditions that alone is barely significant, and one that is clearly significant."""
    fine = {f"fine{n}": rate(95, 100) for n in range(4)}
    nearly = write_eval_product(tmp_path / "nearly", right=rate(71, 100), **fine)
    conditions = [at_least(0.8), *(at_least(0.8, name) for name in fine)]
    alone = run_gate(tmp_path / "alone", {"after": nearly}, conditions[0])
    assert alone["verdict"] == "inconclusive" or alone["conditions"][0]["p_against"] <= 0.025
    plain = run_gate(tmp_path / "plain", {"after": nearly}, *conditions, correction="none")
    corrected = run_gate(tmp_path / "corrected", {"after": nearly}, *conditions)
    assert plain["verdict"] == "fail"
    assert corrected["verdict"] == "inconclusive"
    assert corrected["conditions"][0]["corrected"] is True
    assert corrected["conditions"][0]["compared_with"] == pytest.approx(0.025 / 5)
    bad = write_eval_product(tmp_path / "bad", right=rate(50, 100), **fine)
    assert run_gate(tmp_path / "failed", {"after": bad}, *conditions)["verdict"] == "fail"


def test_the_same_data_give_the_same_numbers(tmp_path: Path):
    after = measuring_a_mean(write_eval_product(tmp_path / "after", right=[[n / 40] for n in range(40)]))
    result = [run_gate(tmp_path / f"gate-{n}", {"after": after}, at_least(0.4)) for n in range(2)]
    assert result[0] == result[1]
    assert result[0]["conditions"][0]["method"] == "t and bootstrap"


def measuring_a_mean(folder: Path) -> Path:
    metrics = json.loads((folder / "metrics.json").read_text())
    metrics["right"]["kind"] = "mean"
    (folder / "metrics.json").write_text(json.dumps(metrics))
    return folder
