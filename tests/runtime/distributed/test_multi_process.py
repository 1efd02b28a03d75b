"""A stage in two processes on one machine: one shared batch, one product, exact resume."""

import os
import signal
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import require_service
from tests.recipe_command import file_digests, find_processes, wait_until
from tests.runtime.methods.stage_harness import StageHarness, compile_plan, metrics, recipe

from posttrain.runtime.rows_io import read_rows
from posttrain.runtime.store.file_locks import try_lock
from posttrain.runtime.store.products import Product
from posttrain.runtime.store.runs import run_key
from posttrain.spec.plan import Launch, Plan, Step

pytestmark = pytest.mark.slow

_SFT = "max_steps: 8, learning_rate: 5.0e-3, batch_size: 16, max_length: 64, save_steps: 2"
_GRPO = (
    "max_steps: 8, num_prompts: 16, num_generations: 4, learning_rate: 2.0e-3, max_completion_length: 6,"
    " save_steps: 2, beta: 0.1"
)


def stage(method: str, more: str = "", keys: str = "") -> str:
    params = _GRPO if method in ("grpo", "rloo") else _SFT
    reward = "reward: solution, " if method in ("grpo", "rloo") else ""
    return recipe(
        f"it: {{train: {method}, model: sft, data: sums.train, {reward}{keys}params: {{{params}{more}}}}}"
    )


def compile_placed(text: str, strategy: str, processes: int = 2) -> tuple[Plan, Step]:
    """Plan a recipe whose stage `it` runs in several processes."""
    plan = compile_plan(text)
    step = plan.step("it")
    launched = step.model_copy(update={"launch": Launch(processes=processes, strategy=strategy)})
    return plan, launched


def run_again(bench: StageHarness, plan: Plan, step: Step) -> Product:
    """Run a step again. The key does not depend on the number of processes."""
    bench.reset_step(step)
    return bench.run_step(plan, step)


def is_step_finished(bench: StageHarness, step: Step) -> bool:
    """Whether all processes of a step have exited and its lock is free."""
    lock = try_lock(bench.home.step_lock(run_key(step, "test")))
    if lock is not None:
        lock.release()
    return lock is not None and not find_processes(bench.work(step))


@pytest.fixture(params=["ddp", "zero2"])
def strategy(request: pytest.FixtureRequest) -> str:
    if request.param != "ddp":
        require_service("deepspeed", find_spec("deepspeed"), "pip install deepspeed")
    return request.param


@pytest.mark.parametrize("method", ["sft", "dpo", "grpo"])
def test_two_processes_train_as_one_does(method: str, strategy: str, bench: StageHarness) -> None:
    """Each step has the same rows: results differ only by the order of summation, not by sampling."""
    plan, step = compile_placed(stage(method, ", temperature: 0.5" if method == "grpo" else ""), strategy)
    alone = run_again(bench, plan, plan.step("it"))
    together = run_again(bench, plan, step)
    ours, theirs = metrics(together, "loss"), metrics(alone, "loss")
    assert len(ours) == len(theirs)
    if method != "grpo":  # each process samples its own completions
        assert ours == pytest.approx(theirs, rel=2e-3, abs=1e-4)
    assert together.facts["parameters"] == alone.facts["parameters"]
    assert set(together.manifest.files) == set(alone.manifest.files)


@pytest.mark.parametrize("case", ["sft", "sft, an adapter", "dpo", "grpo", "rloo, a buffer"])
def test_a_killed_stage_ends_with_the_same_bytes(case: str, strategy: str, bench: StageHarness) -> None:
    method, _, how = case.partition(", ")
    more = ", optimizer_steps_per_generation: 2, micro_batch_size: 16" if how == "a buffer" else ""
    keys = "adapter: {r: 4, lora_dropout: 0.1}, " if how == "an adapter" else ""
    plan, step = compile_placed(stage(method, more, keys), strategy)
    undisturbed = run_again(bench, plan, step)
    bench.reset_step(step)
    bench.prepare_step(plan, step)
    bench.kill_after_checkpoint(step, at=6)
    wait_until(lambda: is_step_finished(bench, step), "the end of all processes")
    bench.prepare_step(plan, step)
    assert bench.wait(step) == 0, bench.failure(step)
    assert [event["step"] for event in bench.events(step) if event["kind"] == "resumed"] >= [6]
    assert bench.commit(step).content_digest == undisturbed.content_digest


@pytest.mark.parametrize("divided", ["zero1", "zero3"])
def test_a_stage_that_zero_divides_otherwise_is_exact_too(divided: str, bench: StageHarness) -> None:
    """The reference model is loaded while DeepSpeed shards loaded models, and is updated during training."""
    require_service("deepspeed", find_spec("deepspeed"), "pip install deepspeed")
    more = ", ref_model_sync_steps: 1" if divided == "zero3" else ""
    plan, step = compile_placed(stage("dpo", more).replace("max_steps: 8", "max_steps: 4"), divided)
    undisturbed = run_again(bench, plan, step)
    assert undisturbed.facts["parameters"] == bench.run_step(plan, plan.step("sft")).facts["parameters"]
    bench.reset_step(step)
    bench.prepare_step(plan, step)
    bench.kill_after_checkpoint(step, at=2)
    wait_until(lambda: is_step_finished(bench, step), "the end of all processes")
    bench.prepare_step(plan, step)
    assert bench.wait(step) == 0, bench.failure(step)
    assert bench.commit(step).content_digest == undisturbed.content_digest


def test_divided_weights_whose_last_step_is_done_are_brought_together(bench: StageHarness) -> None:
    require_service("deepspeed", find_spec("deepspeed"), "pip install deepspeed")
    plan, step = compile_placed(stage("sft").replace("max_steps: 8", "max_steps: 2"), "zero3")
    check_product_is_rewritten(bench, plan, step)


def check_product_is_rewritten(bench: StageHarness, plan: Plan, step: Step) -> None:
    """Delete a stage's product, as if the stage had been killed before saving. The next run recreates it."""
    bench.reset_step(step)
    bench.prepare_step(plan, step)
    assert bench.wait(step) == 0, bench.failure(step)
    undisturbed = file_digests(bench.work(step) / "files")
    (bench.work(step) / "receipt.json").unlink()
    bench.prepare_step(plan, step)
    assert bench.wait(step) == 0, bench.failure(step)
    assert [e["kind"] for e in bench.events(step)].count("resumed") == 1
    assert file_digests(bench.work(step) / "files") == undisturbed


def rank_pids(bench: StageHarness, step: Step) -> list[int]:
    """The processes of a step that train, by rank: those without child processes."""
    found: dict[int, int] = {}
    for pid in find_processes(bench.work(step)):
        try:
            parent = int((Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        found[pid] = parent
    return sorted(found.keys() - found.values())


@pytest.mark.parametrize("which", [0, 1])
def test_a_process_that_is_killed_ends_the_step_and_the_others(which: int, bench: StageHarness) -> None:
    plan, step = compile_placed(stage("sft").replace("max_steps: 8", "max_steps: 400"), "ddp")
    bench.reset_step(step)
    bench.prepare_step(plan, step)
    lock = try_lock(bench.home.step_lock(run_key(step, "test")))
    assert lock is not None
    handle = bench.runner.start(bench.work(step), step, {}, lock.descriptor)
    wait_until(lambda: any(e["kind"] == "checkpoint" for e in bench.events(step)), "a checkpoint")
    os.kill(rank_pids(bench, step)[which], signal.SIGKILL)
    wait_until(lambda: bench.runner.poll(handle) is not None, "the end of the step")
    lock.release()
    assert handle.status == 1
    assert f"process {which} of 2 was killed by signal 9" in bench.failure(step)["message"]
    wait_until(lambda: is_step_finished(bench, step), "the end of all processes")


def test_a_step_that_is_asked_to_stop_keeps_what_it_has(bench: StageHarness) -> None:
    plan, step = compile_placed(stage("sft").replace("max_steps: 8", "max_steps: 400"), "ddp")
    bench.reset_step(step)
    bench.prepare_step(plan, step)
    lock = try_lock(bench.home.step_lock(run_key(step, "test")))
    assert lock is not None
    handle = bench.runner.start(bench.work(step), step, {}, lock.descriptor)
    wait_until(lambda: any(e["kind"] == "checkpoint" for e in bench.events(step)), "a checkpoint")
    bench.runner.stop(handle)
    wait_until(lambda: bench.runner.poll(handle) is not None, "the end of the step")
    lock.release()
    assert handle.status == 75, bench.failure(step)


def step_failure(bench: StageHarness, plan: Plan, step: Step) -> Mapping[str, Any]:
    bench.reset_step(step)
    bench.prepare_step(plan, step)
    assert bench.wait(step) == 1
    return bench.failure(step)


def test_a_batch_that_does_not_divide_is_told(bench: StageHarness) -> None:
    plan, step = compile_placed(stage("sft", ", micro_batch_size: 16"), "ddp", processes=3)
    assert (
        "1 micro-batches of 16 cannot be divided among 3 processes"
        in step_failure(bench, plan, step)["message"]
    )


def test_groups_of_completions_are_not_split(bench: StageHarness) -> None:
    plan, step = compile_placed(stage("grpo").replace("num_prompts: 16", "num_prompts: 3"), "ddp")
    assert "not a multiple of num_generations (4)" in step_failure(bench, plan, step)["message"]


def test_an_unknown_strategy_fails_before_it_trains(bench: StageHarness) -> None:
    plan, step = compile_placed(stage("sft"), "magic")
    assert "unknown strategy `magic`" in step_failure(bench, plan, step)["message"]


def test_what_became_of_the_plan_is_looked_at(bench: StageHarness) -> None:
    """On a CPU, accelerate silently replaces FSDP by DDP."""
    plan, step = compile_placed(stage("sft"), "fsdp")
    message = step_failure(bench, plan, step)["message"]
    assert "the stage does not run as planned" in message
    assert "strategy ddp instead of fsdp" in message


_CHECK = (
    "check: {eval: it, data: sums.test, reward: solution, metrics: {score: {mean: returns}},"
    " sampling: {max_tokens: 6, temperature: 0.8, batch_size: 4}}"  # five batches for two processes
)
_EVALUATED = (
    "it: {train: sft, model: sft, data: sums.train, evaluate: {eval_steps: 1, evals: [check],"
    " metric_for_best_model: check.score, keep: best, early_stopping_patience: 2}, params: {max_steps: 12,"
    " learning_rate: 1.0e-4, lr_scheduler_type: constant_with_warmup, warmup_steps: 0, batch_size: 16,"
    " max_length: 64, save_steps: 3, save_total_limit: 1}}"
)


def check_evaluates_like_one_process(bench: StageHarness, strategy: str) -> tuple[Plan, Step, Product]:
    """The same evaluations, best weights and early stop as with one process."""
    wide = recipe(_EVALUATED, _CHECK).replace(
        "hidden_size: 32", "hidden_size: 384"
    )  # by default ZeRO-3 does not shard small weights
    plan, step = compile_placed(wide, strategy)
    alone = run_again(bench, plan, plan.step("it"))
    together = run_again(bench, plan, step)
    found = metrics(together, "eval/check.score")
    assert found == metrics(alone, "eval/check.score")
    assert metrics(together, "loss") == pytest.approx(metrics(alone, "loss"), rel=2e-3, abs=1e-4)
    assert together.facts["parameters"] == alone.facts["parameters"]
    assert set(together.manifest.files) == set(alone.manifest.files)
    assert together.facts["best"] == alone.facts["best"]
    best, last = together.facts["best"], together.facts["steps"]
    assert best["value"] == max(found)
    assert best["step"] < last < 12, "the last are the best, or it never ended early: the test shows nothing"
    assert last == alone.facts["steps"]
    checked = run_again(bench, plan, plan.step("check"))
    assert checked.facts["metrics"]["score"]["value"] == best["value"]
    return plan, step, together


def check_evaluates_alike_when_killed(
    bench: StageHarness, plan: Plan, step: Step, undisturbed: Product
) -> None:
    """The stage is killed between the best evaluation and its end."""
    bench.reset_step(step)
    bench.prepare_step(plan, step)
    bench.kill_after_checkpoint(step, at=undisturbed.facts["best"]["step"])
    wait_until(lambda: is_step_finished(bench, step), "the end of all processes")
    bench.prepare_step(plan, step)
    assert bench.wait(step) == 0, bench.failure(step)
    again = bench.commit(step)
    assert again.content_digest == undisturbed.content_digest
    assert again.facts == undisturbed.facts


def test_a_model_is_measured_as_by_one_process(bench: StageHarness) -> None:
    check_evaluates_like_one_process(bench, "ddp")


def test_a_divided_model_is_measured_as_by_one_process(bench: StageHarness) -> None:
    require_service("deepspeed", find_spec("deepspeed"), "pip install deepspeed")
    check_evaluates_alike_when_killed(bench, *check_evaluates_like_one_process(bench, "zero3"))


@pytest.mark.parametrize("method", ["sft", "dpo"])
def test_held_out_rows_are_evaluated_as_by_one_process(method: str, bench: StageHarness) -> None:
    """17 rows: the last batches of two processes have repeated rows, which do not count."""
    plan, step = compile_placed(stage(method, keys="evaluate: {eval_steps: 4, data: sums.test}, "), "ddp")
    alone = run_again(bench, plan, plan.step("it"))
    together = run_again(bench, plan, step)
    rows = [read_rows(product.files / "evaluation", "rows") for product in (alone, together)]
    assert len(rows[0]) == len(rows[1]) == 17
    losses = [[row["eval_loss"] for row in found] for found in rows]
    assert losses[1] == pytest.approx(losses[0], rel=1e-2, abs=1e-3)
    assert metrics(together, "eval/loss") == pytest.approx(metrics(alone, "eval/loss"), rel=2e-3, abs=1e-4)


def test_a_stage_in_several_processes_leaves_one_receipt_and_a_log_each(bench: StageHarness) -> None:
    plan, step = compile_placed(stage("sft"), "ddp")
    product = run_again(bench, plan, step)
    assert {path.name for path in product.record.iterdir()} >= {"log", "rank-1.log", "events.jsonl"}
    assert product.facts["steps"] == 8
    assert len(metrics(product, "loss")) == 8


def test_a_checkpoint_of_another_placement_is_refused(bench: StageHarness) -> None:
    plan, step = compile_placed(stage("sft"), "ddp")
    bench.reset_step(step)
    bench.prepare_step(plan, step)
    bench.kill_after_checkpoint(step, at=4)
    wait_until(lambda: is_step_finished(bench, step), "the end of all processes")
    alone = plan.step("it")
    bench.prepare_step(plan, alone)
    assert bench.wait(alone) == 1
    failure = bench.failure(alone)
    assert "was saved by 2 processes (ddp), but the plan has 1 (single)" in failure["message"]
    assert "placement: {num_processes: 2, strategy: ddp}" in failure["advice"]
