"""PPO in two processes on one machine: one shared batch, one product, exact resume."""

import pytest
from tests.recipe_command import wait_until
from tests.runtime.distributed.test_multi_process import compile_placed, run_again
from tests.runtime.methods.stage_harness import StageHarness, metrics, recipe

from posttrain.runtime.store.file_locks import try_lock
from posttrain.runtime.store.runs import run_key
from posttrain.spec.plan import Step

pytestmark = pytest.mark.slow

_PARAMS = (
    "max_steps: 8, batch_size: 16, num_mini_batches: 2, num_ppo_epochs: 1, micro_batch_size: 4,"
    " learning_rate: 1.0e-3, max_completion_length: 6, save_steps: 2, kl_target: 0.5"
)


def stage(keys: str = "") -> str:
    return recipe(
        f"it: {{train: ppo, model: sft, data: sums.train, reward: solution, {keys}params: {{{_PARAMS}}}}}"
    )


def is_step_unlocked(bench: StageHarness, step: Step) -> bool:
    """Whether all processes of the step have exited: each of them holds its lock."""
    lock = try_lock(bench.home.step_lock(run_key(step, "test")))
    if lock is not None:
        lock.release()
    return lock is not None


@pytest.mark.parametrize("keys", ["", "adapter: {r: 4, lora_dropout: 0.1}, "])
def test_a_killed_stage_ends_with_the_same_bytes(keys: str, strategy: str, bench: StageHarness) -> None:
    plan, step = compile_placed(stage(keys), strategy)
    undisturbed = run_again(bench, plan, step)
    assert len(metrics(undisturbed, "loss")) == 8
    bench.reset_step(step)
    bench.prepare_step(plan, step)
    bench.kill_after_checkpoint(step, at=4)
    wait_until(lambda: is_step_unlocked(bench, step), "the end of all processes")
    bench.prepare_step(plan, step)
    assert bench.wait(step) == 0, bench.failure(step)
    assert [event["step"] for event in bench.events(step) if event["kind"] == "resumed"] >= [4]
    assert bench.commit(step).content_digest == undisturbed.content_digest
