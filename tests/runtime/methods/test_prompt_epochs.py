"""The `epochs` of methods that train on their own completions: passes over the prompts."""

import pytest
from tests.runtime.methods.stage_harness import StageHarness, compile_or_errors, compile_plan, recipe

from posttrain.runtime.methods.grpo import GrpoParams
from posttrain.runtime.methods.ppo import PpoParams
from posttrain.runtime.methods.ppo import schedule as ppo_schedule
from posttrain.runtime.training.rollout_training import rollout_schedule

_PARAMS = {
    "grpo": "num_prompts: 16, num_generations: 4, learning_rate: 1.0e-3, max_completion_length: 6",
    "rloo": "num_prompts: 16, num_generations: 4, learning_rate: 1.0e-3, max_completion_length: 6",
    "ppo": "batch_size: 16, num_ppo_epochs: 1, learning_rate: 1.0e-3, max_completion_length: 6",
}


def stage_recipe(method: str, length: str) -> str:
    params = f"params: {{{_PARAMS[method]}{length}}}"
    return recipe(f"it: {{train: {method}, model: sft, data: sums.train, reward: solution, {params}}}")


@pytest.mark.parametrize(
    ("epochs", "rows", "steps"),
    [(1, 64, 4), (2, 64, 8), (1, 79, 4), (0.5, 64, 2), (0.1, 64, 1), (1 / 3, 480, 10), (1, 16, 1)],
)
def test_passes_become_steps(epochs: float, rows: int, steps: int) -> None:
    assert rollout_schedule(GrpoParams(epochs=epochs, num_prompts=16), rows).steps == steps
    assert ppo_schedule(PpoParams(epochs=epochs, batch_size=16, num_ppo_epochs=1), rows).steps == steps


def test_each_set_of_prompts_makes_its_steps() -> None:
    planned = rollout_schedule(
        GrpoParams(epochs=1, num_prompts=4, optimizer_steps_per_generation=4, num_iterations=2), 64
    )
    assert (planned.steps, planned.checkpoint_alignment) == (32, 8)
    planned = ppo_schedule(PpoParams(epochs=2, batch_size=8, num_mini_batches=2, num_ppo_epochs=3), 64)
    assert (planned.steps, planned.checkpoint_alignment) == (48, 6)


@pytest.mark.parametrize("method", _PARAMS)
@pytest.mark.parametrize(
    ("length", "said"),
    [
        ("", "set `max_steps` or `epochs`"),
        (", max_steps: 2, epochs: 1", "max_steps and epochs both set the length"),
        (", epochs: 1, warmup_steps: 4", "warmup_steps is 4, but the run has 4 steps"),
    ],
)
def test_the_length_is_given_once(method: str, length: str, said: str) -> None:
    _, errors = compile_or_errors(stage_recipe(method, length))
    assert said in " ".join(errors)


@pytest.mark.slow
@pytest.mark.parametrize("method", _PARAMS)
def test_a_pass_takes_the_steps_that_were_planned(method: str, bench: StageHarness) -> None:
    text = stage_recipe(method, ", epochs: 1")
    assert compile_plan(text).step("it").expect["steps"] == 4
    assert bench.run(text)["it"].facts["steps"] == 4
    assert (
        compile_plan(text).step("it").key
        != compile_plan(stage_recipe(method, ", max_steps: 4")).step("it").key
    )
