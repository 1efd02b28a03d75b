"""Problems of a training stage are reported before or at the first step, with advice."""

import sys
from collections.abc import Mapping
from typing import Any

import pytest
from tests.runtime.methods.stage_harness import TEMPLATE, StageHarness, compile_plan, recipe, warnings

from posttrain.runtime.errors import StepError
from posttrain.runtime.events import EventWriter
from posttrain.runtime.methods.sft import SftParams
from posttrain.runtime.models.model_loader import load_model, load_tokenizer
from posttrain.runtime.training.anomaly_monitor import AnomalyMonitor
from posttrain.runtime.training.preference_training import import_experimental
from posttrain.runtime.training.validate_tokenized import check_prompts, check_tokenizer, context_length
from posttrain.spec.extension import Schedule

pytestmark = pytest.mark.slow

_SPLIT = "- split: {test: 17}"
_SFT = (
    "it: {train: sft, model: base, data: sums.train, params: {max_steps: 2, batch_size: 8, max_length: %d}}"
)
_LONG = "case when length(answer) = 2 then repeat('1', 40) || completion else completion end"


def failed(bench: StageHarness, text: str) -> Mapping[str, Any]:
    """Return the failure of a stage; it must fail before its first step."""
    plan = compile_plan(text)
    step = plan.step("it")
    bench.reset_step(step)
    bench.prepare_step(plan, step)
    assert bench.wait(step) == 1
    return bench.failure(step)


def derived(text: str, **columns: str) -> str:
    made = "".join(f'- derive: {{{name}: "{value}"}}\n      ' for name, value in columns.items())
    return text.replace(_SPLIT, made + _SPLIT)


@pytest.mark.parametrize(
    ("method", "column"), [("sft", "completion"), ("dpo", "chosen"), ("cpo", "chosen"), ("kto", "chosen")]
)
def test_rows_that_are_cut_are_counted(method: str, column: str, bench: StageHarness) -> None:
    text = derived(recipe(_SFT.replace("sft", method) % 20), **{column: _LONG})
    found = [message for message in warnings(bench.run(text)["it"]) if "are truncated" in message]
    rows = 128 if method == "kto" else 64
    assert len(found) == 1
    assert f"of {rows} rows are truncated to 20 tokens" in found[0]


def test_rows_that_are_dropped_are_counted(bench: StageHarness) -> None:
    text = derived(recipe(_SFT % 20), prompt=_LONG.replace("completion", "prompt"))
    found = [message for message in warnings(bench.run(text)["it"]) if "were dropped" in message]
    assert len(found) == 1
    assert "of 64 rows were dropped: they do not fit into 20 tokens" in found[0]


@pytest.mark.parametrize("method", ["orpo", "simpo"])
def test_rows_whose_prompt_leaves_nothing_to_learn_are_dropped(method: str, bench: StageHarness) -> None:
    """The trainer would retain them, and their loss is NaN."""
    text = derived(recipe(_SFT.replace("sft", method) % 20), prompt=_LONG.replace("completion", "prompt"))
    found = [message for message in warnings(bench.run(text)["it"]) if "were dropped" in message]
    assert len(found) == 1


@pytest.mark.parametrize("method", ["sft", "dpo", "reward_model", "orpo", "cpo"])
def test_rows_of_which_none_fits_fail(method: str, bench: StageHarness) -> None:
    text = derived(recipe(_SFT.replace("sft", method) % 20), prompt="repeat('1', 50)")
    assert "none of the 64 rows has tokens to train on within 20 tokens" in failed(bench, text)["message"]


def test_rows_with_nothing_in_them_fail(bench: StageHarness) -> None:
    text = derived(recipe(_SFT % 20), completion="case when answer = '7' then null else completion end")
    found = failed(bench, text)
    assert "rows have a null in the column `completion`" in found["message"]
    assert "where: completion IS NOT NULL" in found["advice"]


def test_a_template_without_an_end_is_warned_of(bench: StageHarness) -> None:
    endless = TEMPLATE.replace("{{ eos_token }}", "")
    found = warnings(bench.run(recipe(_SFT % 20), {"chat.jinja": endless})["it"])
    assert ["the model does not learn to stop" in message for message in found] == [True]


_GRPO = (
    "it: {train: grpo, model: base, data: sums.train, reward: only_right, params: {max_steps: 6, num_prompts:"
    " 4, num_generations: 4, max_completion_length: 2, constant_reward_steps: 2%s}}"
)


def rewarded(params: str = "") -> str:
    right = "  only_right:\n    reads: {completion: text, answer: text}\n    nodes:\n"
    right += "      tagged: {between: {of: completion, open: <answer>, close: </answer>}}\n"
    right += "    returns: {score: {when: {equal: {of: tagged, to: answer}}, then: 1.0}}\n"
    return recipe(_GRPO % params).replace("stages:\n", right + "stages:\n")


def test_a_reward_that_nothing_earns_fails(bench: StageHarness) -> None:
    found = failed(bench, rewarded())
    assert "all completions of each prompt had the same reward for 2 steps" in found["message"]
    assert "on_constant_reward: warn" in found["advice"]


def test_a_reward_that_nothing_earns_may_be_warned_of(bench: StageHarness) -> None:
    found = warnings(bench.run(rewarded(", on_constant_reward: warn"))["it"])
    assert len([message for message in found if "the same reward for 2 steps" in message]) == 1


def test_a_run_that_blows_up_fails(bench: StageHarness) -> None:
    text = recipe(_SFT % 20).replace(
        "batch_size: 8", "batch_size: 8, max_grad_norm: 1.0e+30, learning_rate: 1.0e+30"
    )
    found = failed(bench, text)
    assert "the loss is" in found["message"] or "the gradient norm is" in found["message"]
    assert "lower the learning rate" in found["advice"]


def test_rows_that_run_short_when_they_are_made_fail(bench: StageHarness) -> None:
    text = rewarded().replace(_SPLIT, "- where: answer = '7'\n      - split: {test: 1}")
    found = failed(bench, text.replace("num_prompts: 4", "num_prompts: 16"))
    assert "a generation batch needs 16 prompts, but the dataset has 5" in found["message"]


@pytest.fixture
def monitor(tmp_path) -> AnomalyMonitor:
    return AnomalyMonitor(EventWriter(tmp_path / "events.jsonl"), SftParams(), Schedule(steps=1))


@pytest.fixture
def start(bench: StageHarness) -> tuple[Any, Any]:
    folder = bench.run(recipe())["models.base"].files
    return load_model(folder), load_tokenizer(folder)


def test_a_tokenizer_that_cannot_pad_is_warned_of(start: tuple[Any, Any], monitor: AnomalyMonitor) -> None:
    model, tokenizer = start
    tokenizer.pad_token = None
    check_tokenizer(model, tokenizer, monitor)
    assert tokenizer.pad_token == tokenizer.eos_token
    assert "has no padding token" in monitor.state_dict()["warned"][0]


def test_a_tokenizer_that_cannot_end_fails(start: tuple[Any, Any], monitor: AnomalyMonitor) -> None:
    model, tokenizer = start
    tokenizer.eos_token = None
    with pytest.raises(StepError, match="no end token"):
        check_tokenizer(model, tokenizer, monitor)


def test_a_tokenizer_that_knows_no_words_fails(start: tuple[Any, Any], monitor: AnomalyMonitor) -> None:
    """transformers creates such a tokenizer from a folder without tokenizer files."""
    model, tokenizer = start
    words = dict.fromkeys(tokenizer.all_special_tokens, 0)
    tokenizer.get_vocab = lambda: words
    with pytest.raises(StepError, match="the tokenizer's vocabulary is empty"):
        check_tokenizer(model, tokenizer, monitor)


def test_a_tokenizer_of_another_model_fails(start: tuple[Any, Any], monitor: AnomalyMonitor) -> None:
    model, tokenizer = start
    tokenizer.add_tokens(["<more>"])
    with pytest.raises(StepError, match="but the model's embedding has"):
        check_tokenizer(model, tokenizer, monitor)


def test_prompts_that_leave_no_room_are_counted(start: tuple[Any, Any], monitor: AnomalyMonitor) -> None:
    model, tokenizer = start
    assert context_length(model) == 64
    check_prompts(["1+1="] * 3, tokenizer, model, 60, monitor)
    assert monitor.state_dict()["warned"] == []
    check_prompts(["1+1=", "1" * 10], tokenizer, model, 60, monitor)
    assert "1 of 2 prompts leave no room for 60 tokens" in monitor.state_dict()["warned"][0]
    with pytest.raises(StepError, match="2 of 2 prompts"):
        check_prompts([[{"role": "user", "content": "1" * 10}]] * 2, tokenizer, model, 60, monitor)


def test_a_method_that_trl_has_dropped_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trl.experimental.cpo", None)
    with pytest.raises(StepError, match="does not contain cpo"):
        import_experimental("cpo")
