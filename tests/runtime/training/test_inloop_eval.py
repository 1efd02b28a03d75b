"""In-loop evaluations: equal to the eval stage, without effect on the training, and exact after a kill."""

from pathlib import Path

import pytest
from tests.runtime.methods.stage_harness import StageHarness, compile_plan, metrics, recipe

from posttrain.runtime.store import checkpoints
from posttrain.runtime.store.products import Product

pytestmark = pytest.mark.slow

_EVAL = (
    "{eval: %s, data: sums.test, reward: solution, metrics: {format: format, score: {mean: returns}},"
    " sampling: {max_tokens: 6, temperature: %s}}"
)
_SFT = (
    "max_steps: 12, learning_rate: 5.0e-3, batch_size: 16, max_length: 64, save_steps: 3, save_total_limit: 1"
)
_GRPO = (
    "max_steps: 8, num_prompts: 8, num_generations: 4, learning_rate: 2.0e-3, max_completion_length: 6,"
    " save_steps: 4"
)


def stages(evaluate: str = "", method: str = "sft", temperature: float = 0.7) -> str:
    """A stage with an in-loop evaluation by the eval that also evaluates its product."""
    params = _SFT if method == "sft" else _GRPO
    reward = "" if method == "sft" else " reward: solution,"
    measured = f" evaluate: {{{evaluate}}}," if evaluate else ""
    it = f"it: {{train: {method}, model: sft, data: sums.train,{reward}{measured} params: {{{params}}}}}"
    return recipe(it, f"check: {_EVAL % ('it', temperature)}")


def values(product: Product, name: str) -> list[float]:
    return metrics(product, f"eval/check.{name}")


@pytest.mark.parametrize("method", ["sft", "grpo"])
def test_weights_are_the_same_with_and_without_evaluations(method: str, bench: StageHarness) -> None:
    plain = bench.run(stages(method=method))["it"]
    measured = bench.run(stages("eval_steps: 2, evals: [check]", method))["it"]
    assert measured.key != plain.key
    assert measured.content_digest == plain.content_digest
    assert len(values(measured, "format")) == (6 if method == "sft" else 4)


def test_the_last_evaluation_is_what_the_eval_stage_finds(bench: StageHarness) -> None:
    made = bench.run(stages("eval_steps: 5, evals: [check]"))
    found = made["check"].facts["metrics"]
    assert len(values(made["it"], "score")) == 3  # after 5, 10 and 12 steps
    assert values(made["it"], "score")[-1] == found["score"]["value"]
    assert values(made["it"], "format")[-1] == found["format"]["value"]


def test_the_best_weights_are_the_product(bench: StageHarness) -> None:
    """With `greater_is_better: false`, the best weights are early ones, not those of the last step."""
    evaluate = (
        "eval_steps: 3, evals: [check], metric_for_best_model: check.score, keep: best, greater_is_better:"
        " false"
    )
    made = bench.run(stages(evaluate))
    found = values(made["it"], "score")
    assert made["it"].facts["best"] == {
        "metric": "check.score",
        "step": 3 * (found.index(min(found)) + 1),
        "value": min(found),
    }
    assert made["it"].facts["steps"] == 12
    assert found.index(min(found)) < 3, "the last happen to be the best: the test shows nothing"
    assert made["check"].facts["metrics"]["score"]["value"] == min(found)


def test_training_ends_early(bench: StageHarness) -> None:
    evaluate = (
        "eval_steps: 2, evals: [check], metric_for_best_model: check.score, early_stopping_patience: 1,"
        " greater_is_better: false, early_stopping_threshold: 10"
    )
    product = bench.run(stages(evaluate))["it"]
    assert product.facts["steps"] == 4
    assert len(metrics(product, "loss")) == 4


CASES = {
    "sft, the best": (
        "sft",
        (
            "eval_steps: 3, evals: [check], metric_for_best_model: check.score, keep: best,"
            " greater_is_better: false"
        ),
    ),
    "sft, the best, ended early": (
        "sft",
        (
            "eval_steps: 3, evals: [check], metric_for_best_model: check.score, keep: best,"
            " greater_is_better: false, early_stopping_patience: 2"
        ),
    ),
    "sft, between checkpoints": (
        "sft",
        "eval_steps: 2, evals: [check], metric_for_best_model: check.format, keep: best",
    ),
    "grpo, the best": (
        "grpo",
        "eval_steps: 4, evals: [check], metric_for_best_model: check.score, keep: best",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_killed_stage_ends_with_the_same_bytes(case: str, bench: StageHarness) -> None:
    method, evaluate = CASES[case]
    plan = compile_plan(stages(evaluate, method))
    step = plan.step("it")
    undisturbed = bench.run_step(plan, step)
    bench.reset_step(step)
    bench.prepare_step(plan, step)
    bench.kill_after_checkpoint(step, at=4)
    bench.prepare_step(plan, step)
    assert bench.wait(step) == 0, bench.failure(step)
    assert any(event["kind"] == "resumed" for event in bench.events(step))
    again = bench.commit(step)
    assert again.content_digest == undisturbed.content_digest
    assert again.facts == undisturbed.facts
    assert values(again, "score") == values(undisturbed, "score")


def test_a_stage_killed_after_it_ended_early_has_only_its_product_to_write(bench: StageHarness) -> None:
    evaluate = (
        "eval_steps: 2, evals: [check], metric_for_best_model: check.score, early_stopping_patience: 1,"
        " greater_is_better: false, early_stopping_threshold: 9"
    )
    plan = compile_plan(stages(evaluate))
    step = plan.step("it")
    undisturbed = bench.run_step(plan, step)
    bench.reset_step(step)
    bench.prepare_step(plan, step)
    assert bench.wait(step) == 0
    (bench.work(step) / "receipt.json").unlink()  # as if the stage had been killed just before it saved this
    bench.prepare_step(plan, step)
    assert bench.wait(step) == 0, bench.failure(step)
    assert bench.commit(step).content_digest == undisturbed.content_digest


def checkpoint_steps(work: Path) -> list[int]:
    found = [path for path in (work / "checkpoints").iterdir() if (path / checkpoints.MANIFEST).exists()]
    return sorted(checkpoints.checkpoint_step(path) for path in found)


def test_best_and_last_checkpoints_are_kept_and_no_others(bench: StageHarness) -> None:
    evaluate = (
        "eval_steps: 3, evals: [check], metric_for_best_model: check.score, keep: best, greater_is_better:"
        " false, early_stopping_threshold: 8"
    )
    plan = compile_plan(stages(evaluate))
    step = plan.step("it")
    bench.reset_step(step)
    bench.prepare_step(plan, step)
    assert bench.wait(step) == 0, bench.failure(step)
    assert checkpoint_steps(bench.work(step)) == [3, 12]


def test_damage_to_the_best_begins_where_all_is_whole(bench: StageHarness) -> None:
    evaluate = (
        "eval_steps: 3, evals: [check], metric_for_best_model: check.score, keep: best, greater_is_better:"
        " false, early_stopping_threshold: 7"
    )
    plan = compile_plan(stages(evaluate))
    step = plan.step("it")
    undisturbed = bench.run_step(plan, step)
    bench.reset_step(step)
    bench.prepare_step(plan, step)
    bench.kill_after_checkpoint(step, at=6)
    best = bench.work(step) / "checkpoints" / "checkpoint-3"
    (best / checkpoints.MANIFEST).unlink()
    bench.prepare_step(plan, step)
    assert bench.wait(step) == 0, bench.failure(step)
    assert not [event for event in bench.events(step) if event["kind"] == "resumed"]
    assert bench.commit(step).content_digest == undisturbed.content_digest
