"""The anomaly monitor: failures, single warnings, and its state across attempts."""

import json
import math
from pathlib import Path

import pytest

from posttrain.runtime.errors import StepError
from posttrain.runtime.events import EventWriter
from posttrain.runtime.methods.grpo import GrpoParams
from posttrain.runtime.methods.ppo import PpoParams
from posttrain.runtime.methods.sft import SftParams
from posttrain.runtime.training.anomaly_monitor import AnomalyMonitor
from posttrain.spec.extension import Schedule

CONSTANT = {"frac_reward_zero_std": 1.0, "gradient_norm": 0.0, "loss": 0.0}
VARYING = {**CONSTANT, "frac_reward_zero_std": 0.5}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def rewarded(log: Path, steps: int = 100, alignment: int = 1, **params: object) -> AnomalyMonitor:
    return AnomalyMonitor(
        EventWriter(log),
        GrpoParams(max_steps=steps, **params),
        Schedule(steps=steps, checkpoint_alignment=alignment),
    )


def supervised(log: Path, steps: int = 100) -> AnomalyMonitor:
    return AnomalyMonitor(EventWriter(log), SftParams(), Schedule(steps=steps))


def warned(log: Path) -> list[str]:
    return [json.loads(line)["message"] for line in log.read_text().splitlines()]


@pytest.mark.parametrize("name", ["loss", "gradient_norm"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_metric_that_is_no_number_fails(name: str, value: float, log: Path) -> None:
    with pytest.raises(StepError, match="at step 7"):
        supervised(log).check_step(7, {"loss": 1.0, "gradient_norm": 1.0, name: value})


def test_a_reward_that_never_varies_fails_after_so_many_steps(log: Path) -> None:
    monitor = rewarded(log, constant_reward_steps=5)
    for step in range(1, 5):
        monitor.check_step(step, CONSTANT)
    with pytest.raises(
        StepError, match="all completions of each prompt had the same reward for 5 steps"
    ) as raised:
        monitor.check_step(5, CONSTANT)
    assert "raise temperature or num_generations" in raised.value.advice


def test_completions_that_are_one_of_a_prompt_each_are_spoken_of_as_such(log: Path) -> None:
    monitor = AnomalyMonitor(
        EventWriter(log), PpoParams(max_steps=9, constant_reward_steps=1), Schedule(steps=9)
    )
    with pytest.raises(StepError, match="all completions had the same reward for 1 step:") as raised:
        monitor.check_step(1, CONSTANT)
    assert "raise temperature or batch_size" in raised.value.advice


def test_a_short_run_is_judged_at_its_end(log: Path) -> None:
    monitor = rewarded(log, steps=2)
    monitor.check_step(1, CONSTANT)
    with pytest.raises(StepError, match="for 2 steps"):
        monitor.check_step(2, CONSTANT)


def test_a_reward_that_has_varied_may_be_constant_again(log: Path) -> None:
    monitor = rewarded(log, constant_reward_steps=3)
    monitor.check_step(1, VARYING)
    for step in range(2, 50):
        monitor.check_step(step, CONSTANT)
    assert warned(log) == []


def test_a_constant_reward_may_only_be_warned_of(log: Path) -> None:
    monitor = rewarded(log, constant_reward_steps=3, on_constant_reward="warn")
    for step in range(1, 20):
        monitor.check_step(step, CONSTANT)
    assert len(warned(log)) == 1


def test_completions_that_serve_several_steps_are_counted_once(log: Path) -> None:
    """With four steps for each generation, eight steps have two generations."""
    monitor = rewarded(log, constant_reward_steps=8, alignment=4)
    monitor.check_step(1, CONSTANT)
    for step in (2, 3, 4):
        monitor.check_step(step, {"gradient_norm": 0.0, "loss": 0.0})
    with pytest.raises(StepError):
        monitor.check_step(5, CONSTANT)


def test_completions_that_are_all_cut_are_warned_of_once(log: Path) -> None:
    monitor = rewarded(log)
    cut, some = ({**VARYING, "completions/clipped_ratio": ratio} for ratio in (1.0, 0.9))
    for step, values in enumerate([cut, cut, some, cut, cut], 1):
        monitor.check_step(step, values)
    assert warned(log) == []
    for step in range(6, 20):
        monitor.check_step(step, cut)
    assert len(warned(log)) == 1


def test_a_gradient_that_is_zero_from_the_start_fails(log: Path) -> None:
    monitor = supervised(log)
    still = {"loss": 1.0, "gradient_norm": 0.0}
    monitor.check_step(1, still)
    monitor.check_step(2, still)
    with pytest.raises(StepError, match="the gradient was zero in each of the first 3 steps"):
        monitor.check_step(3, still)


def test_a_gradient_may_come_to_zero_later(log: Path) -> None:
    monitor = supervised(log)
    monitor.check_step(1, {"loss": 1.0, "gradient_norm": 0.1})
    for step in range(2, 9):
        monitor.check_step(step, {"loss": 0.0, "gradient_norm": 0.0})


def test_a_later_attempt_knows_what_an_earlier_one_saw(log: Path) -> None:
    first = rewarded(log, constant_reward_steps=4)
    first.warn_once("said before", "")
    for step in (1, 2, 3):
        first.check_step(step, CONSTANT)
    second = rewarded(log, constant_reward_steps=4)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    second.warn_once("said before", "")
    assert warned(log) == ["said before"]
    with pytest.raises(StepError):
        second.check_step(4, CONSTANT)


def test_a_loss_that_has_risen_far_is_warned_of_once(log: Path) -> None:
    monitor = supervised(log)
    for step, loss in enumerate([2.0, 3.0, 11.9], 1):
        monitor.check_step(step, {"loss": loss, "gradient_norm": 1.0})
    assert warned(log) == []
    for step in (4, 5):
        monitor.check_step(step, {"loss": 21.0, "gradient_norm": 1.0})
    assert warned(log) == ["the loss has risen to more than ten times its first value"]
