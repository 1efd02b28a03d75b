"""The tokens of a training in its events: every step once, also those before and after a kill."""

import pytest
from tests.runtime.methods.stage_harness import StageHarness, compile_plan, metrics, recipe

pytestmark = pytest.mark.slow

STAGES = {
    # TRL starts to count again after a resume.
    "sft": "it: {train: sft, model: base, data: sums.train, params: {max_steps: 6, batch_size: 8,"
    " save_steps: 2}}",
    # TRL restores its count from the checkpoint.
    "grpo": "it: {train: grpo, model: base, data: sums.train, reward: solution, params: {max_steps: 6,"
    " num_prompts: 2, num_generations: 4, max_completion_length: 4, on_constant_reward: warn,"
    " save_steps: 2}}",
}


@pytest.mark.parametrize("method", STAGES)
def test_a_resumed_training_has_the_counts_of_an_undisturbed_one(method: str, bench: StageHarness) -> None:
    plan = compile_plan(recipe(STAGES[method]))
    step = plan.step("it")
    undisturbed = metrics(bench.run_step(plan, step), "cost/tokens")
    bench.reset_step(step)
    bench.prepare_step(plan, step)
    bench.kill_after_checkpoint(step, at=2)
    bench.prepare_step(plan, step)
    assert bench.wait(step) == 0, bench.failure(step)
    assert any(event["kind"] == "resumed" for event in bench.events(step))
    assert metrics(bench.commit(step), "cost/tokens") == undisturbed
    assert len(undisturbed) == 6
    # A sum has a question, an equals sign and an answer in tags.
    assert all(8 * 4 <= count <= 8 * 64 for count in undisturbed)
