"""PPO in two processes of this machine: one batch shared, one product, exact when killed."""

import pytest
from tests.recipe_command import wait_until
from tests.runtime.launch.test_processes import made, placed
from tests.runtime.methods.workbench import Bench, metrics, recipe

from posttrain.runtime.keeping.locks import try_lock
from posttrain.runtime.keeping.runs import run_key
from posttrain.spec.plan import Step

pytestmark = pytest.mark.slow

_PARAMS = (
    "steps: 8, batch: 16, minibatches: 2, iterations: 1, micro_batch: 4, learning_rate: 1.0e-3,"
    " max_tokens: 6, checkpoint_every: 2, kl_target: 0.5"
)


def stage(keys: str = "") -> str:
    return recipe(
        f"it: {{train: ppo, model: sft, data: sums.train, reward: solution, {keys}params: {{{_PARAMS}}}}}"
    )


def free(bench: Bench, step: Step) -> bool:
    """Whether no process works on the step any more: each of them holds its lock."""
    lock = try_lock(bench.home.lock(run_key(step, "test")))
    if lock is not None:
        lock.release()
    return lock is not None


@pytest.mark.parametrize("keys", ["", "adapter: {rank: 4, dropout: 0.1}, "])
def test_a_killed_stage_ends_with_the_same_bytes(keys: str, strategy: str, bench: Bench) -> None:
    plan, step = placed(stage(keys), strategy)
    undisturbed = made(bench, plan, step)
    assert len(metrics(undisturbed, "loss")) == 8
    bench.forget(step)
    bench.lay_out(plan, step)
    bench.killed(step, at=4)
    wait_until(lambda: free(bench, step), "the end of all processes")
    bench.lay_out(plan, step)
    assert bench.wait(step) == 0, bench.failure(step)
    assert [event["step"] for event in bench.events(step) if event["kind"] == "resumed"] >= [4]
    assert bench.commit(step).content == undisturbed.content
