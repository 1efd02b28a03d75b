"""FSDP2 in two processes on a CPU; `divided.py` says what of it is real."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.recipe_command import wait_until
from tests.runtime.launch.divided import dividing_runner
from tests.runtime.launch.test_processes import (
    gone,
    made,
    measured_alike_when_killed,
    measured_as_by_one_process,
    only_the_product_is_left,
)
from tests.runtime.methods.workbench import Bench, compiled, metrics, recipe

from posttrain.spec.plan import Launch, Plan, Step

pytestmark = pytest.mark.slow

_ROWS = "steps: 6, learning_rate: 5.0e-3, batch: 16, max_length: 64, checkpoint_every: 2"
_PROMPTS = (
    "steps: 6, prompts: 16, generations: 4, learning_rate: 2.0e-3, max_tokens: 6, checkpoint_every: 2,"
    " beta: 0.1"
)
CASES = {
    "sft": f"train: sft, params: {{{_ROWS}}}",
    "sft, a new adapter with dropout": (
        f"train: sft, adapter: {{rank: 4, dropout: 0.1}}, params: {{{_ROWS}}}"
    ),
    "dpo": f"train: dpo, params: {{{_ROWS}}}",
    "grpo": f"train: grpo, reward: solution, params: {{{_PROMPTS}}}",
}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("divided")
    runner = dividing_runner(folder)
    yield Bench(folder, runner)
    runner.close()


def laid(case: str, strategy: str = "fsdp") -> tuple[Plan, Step]:
    plan = compiled(recipe(f"it: {{{CASES[case]}, model: sft, data: sums.train}}"))
    return plan, replace(plan.step("it"), launch=Launch(processes=2, strategy=strategy))


@pytest.mark.parametrize("case", list(CASES)[1:])  # sft is killed below, while it is evaluated
def test_divided_weights_are_trained_saved_and_exact_when_killed(case: str, bench: Bench) -> None:
    plan, step = laid(case)
    alone = made(bench, plan, plan.step("it"))
    together = made(bench, plan, step)
    if "dropout" not in case and case != "grpo":  # what is drawn, each process draws for itself
        wanted = pytest.approx(metrics(alone, "loss"), rel=2e-3, abs=1e-4)
        assert metrics(together, "loss") == wanted
    assert together.facts["parameters"] == alone.facts["parameters"]
    assert set(together.manifest["files"]) == set(alone.manifest["files"])
    undisturbed = together.content
    bench.forget(step)
    bench.lay_out(plan, step)
    bench.killed(step, at=4)
    wait_until(lambda: gone(bench, step), "the end of all processes")
    held = {path.name for path in Path(bench.work(step) / "checkpoints" / "checkpoint-4").iterdir()}
    assert {"pytorch_model_fsdp_0", "optimizer_0"} <= held  # each process has written its part
    bench.lay_out(plan, step)
    assert bench.wait(step) == 0, bench.failure(step)
    assert [event["step"] for event in bench.events(step) if event["kind"] == "resumed"] >= [4]
    assert bench.commit(step).content == undisturbed


def test_divided_weights_whose_last_step_is_done_are_brought_together(bench: Bench) -> None:
    plan, step = laid("sft")
    only_the_product_is_left(bench, plan, step)


def test_a_divided_model_is_measured_as_by_one_process(bench: Bench) -> None:
    measured_alike_when_killed(bench, *measured_as_by_one_process(bench, "fsdp"))
