"""FSDP2 in two processes on a CPU; see `fsdp_on_cpu.py` for what is patched."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.recipe_command import wait_until
from tests.runtime.distributed.fsdp_on_cpu import fsdp_on_cpu_runner
from tests.runtime.distributed.test_multi_process import (
    check_evaluates_alike_when_killed,
    check_evaluates_like_one_process,
    check_product_is_rewritten,
    is_step_finished,
    run_again,
)
from tests.runtime.methods.stage_harness import StageHarness, compile_plan, metrics, recipe

from posttrain.spec.plan import Launch, Plan, Step

pytestmark = pytest.mark.slow

_ROWS = "max_steps: 6, learning_rate: 5.0e-3, batch_size: 16, max_length: 64, save_steps: 2"
_PROMPTS = (
    "max_steps: 6, num_prompts: 16, num_generations: 4, learning_rate: 2.0e-3, max_completion_length: 6,"
    " save_steps: 2, beta: 0.1"
)
CASES = {
    "sft": f"train: sft, params: {{{_ROWS}}}",
    "sft, a new adapter with dropout": (
        f"train: sft, adapter: {{r: 4, lora_dropout: 0.1}}, params: {{{_ROWS}}}"
    ),
    "dpo": f"train: dpo, params: {{{_ROWS}}}",
    "grpo": f"train: grpo, reward: solution, params: {{{_PROMPTS}}}",
}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StageHarness]:
    folder = tmp_path_factory.mktemp("divided")
    runner = fsdp_on_cpu_runner(folder)
    yield StageHarness(folder, runner)
    runner.close()


def compile_placed(case: str, strategy: str = "fsdp") -> tuple[Plan, Step]:
    plan = compile_plan(recipe(f"it: {{{CASES[case]}, model: sft, data: sums.train}}"))
    return plan, plan.step("it").model_copy(update={"launch": Launch(processes=2, strategy=strategy)})


@pytest.mark.parametrize("case", list(CASES)[1:])  # the test below kills sft during an evaluation
def test_divided_weights_are_trained_saved_and_exact_when_killed(case: str, bench: StageHarness) -> None:
    plan, step = compile_placed(case)
    alone = run_again(bench, plan, plan.step("it"))
    together = run_again(bench, plan, step)
    if "dropout" not in case and case != "grpo":  # each process has its own random state
        expected = pytest.approx(metrics(alone, "loss"), rel=2e-3, abs=1e-4)
        assert metrics(together, "loss") == expected
    assert together.facts["parameters"] == alone.facts["parameters"]
    assert set(together.manifest.files) == set(alone.manifest.files)
    undisturbed = together.content_digest
    bench.reset_step(step)
    bench.prepare_step(plan, step)
    bench.kill_after_checkpoint(step, at=4)
    wait_until(lambda: is_step_finished(bench, step), "the end of all processes")
    held = {path.name for path in Path(bench.work(step) / "checkpoints" / "checkpoint-4").iterdir()}
    assert {"pytorch_model_fsdp_0", "optimizer_0"} <= held  # each process has saved its shards
    bench.prepare_step(plan, step)
    assert bench.wait(step) == 0, bench.failure(step)
    assert [event["step"] for event in bench.events(step) if event["kind"] == "resumed"] >= [4]
    assert bench.commit(step).content_digest == undisturbed


def test_divided_weights_whose_last_step_is_done_are_brought_together(bench: StageHarness) -> None:
    plan, step = compile_placed("sft")
    check_product_is_rewritten(bench, plan, step)


def test_a_divided_model_is_measured_as_by_one_process(bench: StageHarness) -> None:
    check_evaluates_alike_when_killed(bench, *check_evaluates_like_one_process(bench, "fsdp"))
