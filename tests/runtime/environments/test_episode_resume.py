"""A killed stage with an environment resumes and ends with identical weights, for each environment."""

from pathlib import Path

import pytest
from tests.runtime.environments.episode_recipe import GUESS, episode_recipe
from tests.runtime.methods.stage_harness import StageHarness, compile_plan

pytestmark = pytest.mark.slow

_SHORT = (
    "max_steps: 8, num_prompts: 8, num_generations: 4, learning_rate: 1.0e-3, max_completion_length: 12,"
    " save_steps: 2"
)
OWN = (
    "{type: python, params: {call: 'game.py:Game', with: {high: 3}, columns: {target: integer}},"
    " max_turns: 2, max_turn_tokens: TOKENS, observation_template: '{observation}'}"
)
GAME = '''\
"""Guessing, as a user writes it."""


class Game:
    def __init__(self, high):
        self.high, self.found = high, False

    def reset(self, row, seed):
        self.target = row["target"]
        return ""

    def step(self, text):
        guess = next((int(letter) for letter in text if letter.isdigit()), 0)
        self.found = guess == self.target
        return ("<" if guess > self.target else ">"), self.found

    def score(self):
        return float(self.found)
'''
_PPO = (
    "max_steps: 8, batch_size: 32, num_ppo_epochs: 2, learning_rate: 1.0e-3, max_completion_length: 12,"
    " save_steps: 2"
)
_BUFFERED = f"{_SHORT}, optimizer_steps_per_generation: 2"
CASES = {
    "grpo, guess": ("grpo", GUESS, _SHORT),
    "grpo, guess, buffer and iterations": (
        "grpo",
        GUESS,
        f"{_BUFFERED}, num_iterations: 2",
    ),
    "grpo, python": ("grpo", OWN, _SHORT),
    "rloo, guess, buffer and micro-batches": (
        "rloo",
        GUESS,
        f"{_BUFFERED}, micro_batch_size: 16",
    ),
    "ppo, guess": ("ppo", GUESS, _PPO),
    "ppo, python, micro-batches": ("ppo", OWN, f"{_PPO}, num_mini_batches: 2, micro_batch_size: 8"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_killed_stage_ends_with_the_same_bytes(case: str, bench: StageHarness) -> None:
    method, environment, params = CASES[case]
    plan = compile_plan(episode_recipe(environment, params, tokens=2, method=method), {"game.py": GAME})
    (Path(bench.root) / "game.py").write_text(GAME)
    step = plan.step("grpo")
    undisturbed = bench.run_step(plan, step).content_digest
    bench.reset_step(step)

    bench.prepare_step(plan, step)
    bench.kill_after_checkpoint(step, at=4)
    bench.prepare_step(plan, step)
    assert bench.wait(step) == 0, bench.failure(step)
    resumed = [event["step"] for event in bench.events(step) if event["kind"] == "resumed"]
    assert resumed
    assert resumed[0] >= 4
    assert bench.commit(step).content_digest == undisturbed


def test_an_environment_that_raises_ends_the_stage_with_advice(bench: StageHarness) -> None:
    broken = GAME.replace("return float(self.found)", "return 7")
    plan = compile_plan(episode_recipe(OWN, _SHORT), {"game.py": broken})
    (Path(bench.root) / "game.py").write_text(broken)
    step = plan.step("grpo")
    bench.prepare_step(plan, step)
    assert bench.wait(step) != 0
    failure = bench.failure(step)
    assert "the score 7 is outside 0 .. 1" in failure["message"]
    assert "on_error: abstain" in failure["advice"]
