"""A stage that acts and is killed ends with the same bytes, whatever kind of place it acts in."""

from pathlib import Path

import pytest
from tests.runtime.environments.acting import GUESS, recipe
from tests.runtime.methods.workbench import Bench, compiled

pytestmark = pytest.mark.slow

_SHORT = "steps: 8, prompts: 8, generations: 4, learning_rate: 1.0e-3, max_tokens: 12, checkpoint_every: 2"
OWN = (
    "{kind: python, params: {call: 'game.py:Game', with: {high: 3}, columns: {target: integer}},"
    " turns: 2, turn_tokens: TOKENS, reply: '{observation}'}"
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
_PPO = "steps: 8, batch: 32, iterations: 2, learning_rate: 1.0e-3, max_tokens: 12, checkpoint_every: 2"
CASES = {
    "grpo, guess": ("grpo", GUESS, _SHORT),
    "grpo, guess, buffer and iterations": ("grpo", GUESS, f"{_SHORT}, buffer: 2, iterations: 2"),
    "grpo, python": ("grpo", OWN, _SHORT),
    "rloo, guess, buffer and micro-batches": ("rloo", GUESS, f"{_SHORT}, buffer: 2, micro_batch: 16"),
    "ppo, guess": ("ppo", GUESS, _PPO),
    "ppo, python, micro-batches": ("ppo", OWN, f"{_PPO}, minibatches: 2, micro_batch: 8"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_killed_stage_ends_with_the_same_bytes(case: str, bench: Bench) -> None:
    method, environment, params = CASES[case]
    plan = compiled(recipe(environment, params, tokens=2, method=method), {"game.py": GAME})
    (Path(bench.root) / "game.py").write_text(GAME)
    step = plan.step("grpo")
    undisturbed = bench.made(plan, step).content
    bench.forget(step)

    bench.lay_out(plan, step)
    bench.killed(step, at=4)
    bench.lay_out(plan, step)
    assert bench.wait(step) == 0, bench.failure(step)
    resumed = [event["step"] for event in bench.events(step) if event["kind"] == "resumed"]
    assert resumed
    assert resumed[0] >= 4
    assert bench.commit(step).content == undisturbed


def test_an_environment_that_raises_ends_the_stage_with_advice(bench: Bench) -> None:
    broken = GAME.replace("return float(self.found)", "return 7")
    plan = compiled(recipe(OWN, _SHORT), {"game.py": broken})
    (Path(bench.root) / "game.py").write_text(broken)
    step = plan.step("grpo")
    bench.lay_out(plan, step)
    assert bench.wait(step) != 0
    failure = bench.failure(step)
    assert "its score 7 does not lie in 0 .. 1" in failure["message"]
    assert "on_error: abstain" in failure["advice"]
