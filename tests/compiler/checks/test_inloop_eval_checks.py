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
