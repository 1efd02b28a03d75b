"""Methods that learn from their own completions may be told how often they go over the prompts."""

import pytest
from tests.runtime.methods.workbench import Bench, compiled, judged, recipe

from posttrain.runtime.methods.grpo import Grpo
from posttrain.runtime.methods.ppo import Ppo
from posttrain.runtime.methods.ppo import schedule as ppo_schedule
from posttrain.runtime.training.rollouts import rollout_schedule

_PARAMS = {
    "grpo": "prompts: 16, generations: 4, learning_rate: 1.0e-3, max_tokens: 6",
    "rloo": "prompts: 16, generations: 4, learning_rate: 1.0e-3, max_tokens: 6",
    "ppo": "batch: 16, iterations: 1, learning_rate: 1.0e-3, max_tokens: 6",
}


def staged(method: str, length: str) -> str:
    params = f"params: {{{_PARAMS[method]}{length}}}"
    return recipe(f"it: {{train: {method}, model: sft, data: sums.train, reward: solution, {params}}}")


@pytest.mark.parametrize(
    ("epochs", "rows", "steps"),
    [(1, 64, 4), (2, 64, 8), (1, 79, 4), (0.5, 64, 2), (0.1, 64, 1), (1 / 3, 480, 10), (1, 16, 1)],
)
def test_passes_become_steps(epochs: float, rows: int, steps: int) -> None:
    assert rollout_schedule(Grpo(epochs=epochs, prompts=16), rows).steps == steps
    assert ppo_schedule(Ppo(epochs=epochs, batch=16, iterations=1), rows).steps == steps


def test_each_set_of_prompts_makes_its_steps() -> None:
    planned = rollout_schedule(Grpo(epochs=1, prompts=4, buffer=4, iterations=2), 64)
    assert (planned.steps, planned.boundary) == (32, 8)
    planned = ppo_schedule(Ppo(epochs=2, batch=8, minibatches=2, iterations=3), 64)
    assert (planned.steps, planned.boundary) == (48, 6)


@pytest.mark.parametrize("method", _PARAMS)
@pytest.mark.parametrize(
    ("length", "said"),
    [
        ("", "say how long: `steps`, or `epochs`"),
        (", steps: 2, epochs: 1", "steps and epochs say the same"),
        (", epochs: 1, warmup_steps: 4", "warmup_steps is 4, and there are 4 steps in all"),
    ],
)
def test_the_length_is_given_once(method: str, length: str, said: str) -> None:
    _, errors = judged(staged(method, length))
    assert said in " ".join(errors)


@pytest.mark.slow
@pytest.mark.parametrize("method", _PARAMS)
def test_a_pass_takes_the_steps_that_were_planned(method: str, bench: Bench) -> None:
    text = staged(method, ", epochs: 1")
    assert compiled(text).step("it").expect["steps"] == 4
    assert bench.run(text)["it"].facts["steps"] == 4
    assert compiled(text).step("it").key != compiled(staged(method, ", steps: 4")).step("it").key
