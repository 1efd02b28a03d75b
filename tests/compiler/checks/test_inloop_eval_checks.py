"""Tests evaluations during training, and trackers: the diagnostics, and the content of the plan."""

import pytest

from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE, minimal_recipe
from posttrain.compiler.pipeline import compile_recipe
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.installed_stack import installed_stack

_TRAIN = "{train: sft, model: base, data: sums.train, params: {epochs: 1, batch_size: 4}}"


def compiled(text: str):
    request = CompileRequest(
        source=SourceFile("recipe.yaml", text.encode()),
        catalog=CATALOG,
        read=lambda _: None,
        stack=installed_stack(),
    )
    return compile_recipe(request)


def with_inloop_eval(evaluate: str, train: str = _TRAIN) -> str:
    return minimal_recipe((_TRAIN, train[:-1] + f", evaluate: {{{evaluate}}}}}"))


@pytest.mark.parametrize(
    ("evaluate", "code", "help"),
    [
        ("eval_steps: 2, evals: [sft]", "PT0661", ""),
        ("eval_steps: 2, evals: [chck]", "PT0661", "did you mean `check`?"),
        (
            "eval_steps: 2, evals: [check], early_stopping_patience: 2",
            "PT0662",
            "add `metric_for_best_model: EVAL.METRIC`",
        ),
        ("eval_steps: 2, evals: [check], metric_for_best_model: check.score", "PT0662", "or remove the key"),
        (
            "eval_steps: 2, evals: [check], keep: best, metric_for_best_model: check.scor",
            "PT0662",
            "did you mean",
        ),
    ],
)
def test_mistakes_are_told(evaluate: str, code: str, help: str) -> None:
    found = compiled(with_inloop_eval(evaluate)).diagnostics
    assert [d.code for d in found if d.severity == "error"] == [code]
    assert help in next(d.help for d in found if d.code == code)


_ROWS = "eval_steps: 2, data: sums.test"


@pytest.mark.parametrize(
    ("evaluate", "code", "help"),
    [
        ("eval_steps: 2", "PT0665", "add `data: NAME.PART`"),
        (f"{_ROWS}, metric_for_best_model: loss, keep: best", "PT0662", "write `eval_loss`"),
        (f"{_ROWS}, metric_for_best_model: eval_los, keep: best", "PT0662", "did you mean `eval_loss`?"),
        (f"{_ROWS}, keep: best", "PT0662", "add `metric_for_best_model: eval_loss`"),
        (
            f"{_ROWS}, metric_for_best_model: eval_loss, keep: best, greater_is_better: true",
            "PT0666",
            "remove the key",
        ),
        (
            f"{_ROWS}, metric_for_best_model: eval_mean_token_accuracy, keep: best, greater_is_better: false",
            "PT0666",
            "remove the key",
        ),
        ("eval_steps: 2, data: sums.tst", "PT0405", ""),
        ("eval_steps: 2, data: sums", "PT0412", "sums.test"),
    ],
)
def test_mistakes_with_held_out_rows_are_told(evaluate: str, code: str, help: str) -> None:
    found = [d for d in compiled(with_inloop_eval(evaluate)).diagnostics if d.severity == "error"]
    assert [d.code for d in found] == [code]
    assert help in found[0].help


def test_held_out_rows_must_have_the_columns_of_the_training() -> None:
    text = with_inloop_eval("eval_steps: 2, data: other")
    other = (
        "datasets:\n  other: {from: {arithmetic: {digits: 2, count: 9}}, steps: [{select: [prompt, answer]}]}"
        "\n"
    )
    (found,) = [d for d in compiled(text.replace("datasets:\n", other)).diagnostics if d.severity == "error"]
    assert found.code == "PT0408"
    assert "the training reads prompt (text), completion (text)" in found.message


@pytest.mark.parametrize("method", ["grpo", "rloo", "ppo"])
def test_methods_without_a_loss_on_rows_are_told(method: str) -> None:
    train = f"{{train: {method}, model: base, data: sums.train, reward: right, params: {{max_steps: 8}}}}"
    found = compiled(with_inloop_eval(_ROWS, train)).diagnostics
    assert [d.code for d in found if d.severity == "error"] == ["PT0665"]


def test_a_reward_model_evaluates_rows_and_no_evals() -> None:
    train = "{train: reward_model, model: base, data: sums.train, params: {epochs: 1, batch_size: 4}}"
    text = with_inloop_eval(f"{_ROWS}, metric_for_best_model: eval_accuracy, keep: best", train)
    text = text.replace("{eval: sft,", "{eval: base,")
    text = text.replace("- split", "- derive: {chosen: completion, rejected: prompt}\n      - split")
    plan = compiled(text).plan
    assert plan is not None
    made = plan.step("sft").params["evaluate"]
    assert made["greater_is_better"] is True
    assert made["metrics"]["eval_accuracy"] == {"kind": "rate"}


def test_the_plan_holds_the_held_out_rows() -> None:
    plan = compiled(
        with_inloop_eval(f"{_ROWS}, evals: [check], metric_for_best_model: eval_loss, keep: best")
    ).plan
    assert plan is not None
    step = plan.step("sft")
    assert step.inputs["held_out"].part == "test"
    made = step.params["evaluate"]
    assert made["greater_is_better"] is False
    assert made["metrics"]["eval_perplexity"] == {"kind": None}
    assert list(made["evals"]) == ["check"]


_TWO = _TRAIN[:-1] + f", evaluate: {{{_ROWS}}}}}"
_GATE = "  other: {}\n  ship: {{gate: [{{metric: {}, {}}}]}}\n"


def gated(metric: str, condition: str, other: str = _TWO):
    recipe = MINIMAL_RECIPE.replace(_TRAIN, _TWO)
    return compiled(recipe.rstrip("\n") + "\n" + _GATE.format(other, metric, condition))


@pytest.mark.parametrize("condition", ["at_most: 1.5", "better_than: other.eval_loss"])
def test_gates_use_losses(condition: str) -> None:
    outcome = gated("sft.eval_loss", condition)
    assert outcome.diagnostics == ()
    assert outcome.plan is not None
    (made,) = outcome.plan.step("ship").params["conditions"]
    assert made["lower_is_better"] is True
    assert outcome.plan.step("ship").inputs["eval:sft"].step == "sft"


@pytest.mark.parametrize(
    ("metric", "condition", "other", "code"),
    [
        ("sft.eval_perplexity", "at_most: 2", _TWO, "PT0702"),
        ("sft.eval_los", "at_most: 2", _TWO, "PT0702"),
        ("sft.eval_loss", "better_than: other.eval_mean_token_accuracy", _TWO, "PT0705"),
        ("sft.eval_loss", "better_than: other.eval_loss", _TWO.replace("sums.test", "sums.train"), "PT0705"),
        (
            "sft.eval_loss",
            "better_than: other.eval_loss",
            _TWO.replace("batch_size: 4", "batch_size: 4, loss_on: all"),
            "PT0705",
        ),
    ],
)
def test_gates_that_compare_other_losses_are_told(metric: str, condition: str, other: str, code: str) -> None:
    found = gated(metric, condition, other).diagnostics
    assert [d.code for d in found if d.severity == "error"] == [code]


def test_the_plan_holds_the_evals_and_what_they_read() -> None:
    plan = compiled(
        with_inloop_eval("eval_steps: 7, evals: [check], keep: best, metric_for_best_model: check.score")
    ).plan
    assert plan is not None
    step, check = plan.step("sft"), plan.step("check")
    made = step.params["evaluate"]
    assert made["eval_steps"] == 7
    assert made["evals"]["check"]["metrics"] == check.params["metrics"]
    assert made["evals"]["check"]["reward"] == check.params["reward"]
    assert step.inputs["check.data"] == check.inputs["data"]
    assert step.key != compiled(MINIMAL_RECIPE).plan.step("sft").key


def test_evaluations_land_where_a_stage_resumes_exactly() -> None:
    grpo = (
        "{train: grpo, model: base, data: sums.train, reward: right, params: {max_steps: 40,"
        " optimizer_steps_per_generation: 4}}"
    )
    outcome = compiled(with_inloop_eval("eval_steps: 10, evals: [check]", grpo))
    assert "PT0663" in [d.code for d in outcome.diagnostics]
    assert outcome.plan is not None
    assert outcome.plan.step("sft").params["evaluate"]["eval_steps"] == 12


def test_trackers_are_known_by_name_and_are_no_part_of_a_key() -> None:
    several = compiled("tracking: [wandb, mlflow]\n" + MINIMAL_RECIPE)
    assert several.plan is not None
    assert several.plan.tracking == ("wandb", "mlflow")
    assert several.plan.step("sft").key == compiled(MINIMAL_RECIPE).plan.step("sft").key
    (wrong,) = compiled("tracking: [wandb, mlfow]\n" + MINIMAL_RECIPE).diagnostics
    help = "did you mean `mlflow`? trackers: mlflow, tensorboard, trackio, wandb"
    assert (wrong.code, wrong.help) == ("PT0911", help)


_ROW = '{{"prompt": "1+1=", "completion": {completion}, "answer": "2"{more}}}\n'
_HELD_OUT = (
    ("datasets:\n", "datasets:\n  held: {from: {files: held.jsonl}}\n"),
    (_TRAIN, _TRAIN[:-1] + ", evaluate: {eval_steps: 2, data: held}}"),
)


@pytest.mark.parametrize(
    ("row", "code", "message"),
    [
        (_ROW.format(completion="null", more=""), "PT0411", "a null or empty value in `completion`"),
        (_ROW.format(completion='"2"', more=', "images": "a.png"'), "PT0420", "ignore the column `images`"),
    ],
)
def test_held_out_rows_are_checked_like_those_of_the_training(row: str, code: str, message: str) -> None:
    good = _ROW.format(completion='"2"', more=', "images": "a.png"' if "images" in row else "")
    text = minimal_recipe(*_HELD_OUT)
    files = {"held.jsonl": (good * 3 + row).encode()}
    request = CompileRequest(
        source=SourceFile("recipe.yaml", text.encode()),
        catalog=CATALOG,
        read=files.get,
        stack=installed_stack(),
    )
    errors = [d for d in compile_recipe(request).diagnostics if d.severity == "error"]
    assert [d.code for d in errors] == [code]
    found = errors[0]
    assert message in found.message
    assert found.span is not None
    line = text.splitlines()[found.span.line - 1]
    assert line[found.span.column - 1 :].startswith("held}")
