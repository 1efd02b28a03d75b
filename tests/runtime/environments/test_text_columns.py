"""A text column reaches an environment as text, even if the stage converts prompts to conversations."""

import pytest
from tests.runtime.methods.stage_harness import StageHarness, recipe

pytestmark = pytest.mark.slow

_ASKER = """\
class Asker:
    def reset(self, row, seed):
        assert isinstance(row["prompt"], str), type(row["prompt"])
        return row["prompt"]

    def step(self, action):
        return "", True

    def score(self):
        return 0.5
"""
_WORLD = """\
environments:
  asker:
    type: python
    max_turns: 1
    params: {call: "asker.py:Asker", columns: {prompt: text}}
stages:
"""
_SCORED = """\
  scored:
    reads: {completion: text}
    returns: {environment: {}}
stages:
"""
_STAGES = {
    "grpo": "it: {train: grpo, model: sft, data: sums.train, reward: scored, environment: asker, params:"
    " {max_steps: 2, num_prompts: 4, num_generations: 4, max_completion_length: 8,"
    " on_constant_reward: warn}}",
    "ppo": "it: {train: ppo, model: sft, data: sums.train, reward: scored, environment: asker, params:"
    " {max_steps: 2, batch_size: 8, num_ppo_epochs: 1, max_completion_length: 8, on_constant_reward: warn}}",
    "eval": "it: {eval: sft, data: sums.test, reward: scored, environment: asker,"
    " metrics: {score: {mean: returns}}, sampling: {max_tokens: 8}}",
}


@pytest.mark.parametrize("stage", _STAGES)
def test_an_environment_reads_the_text_of_a_prompt(stage: str, bench: StageHarness) -> None:
    text = recipe(_STAGES[stage]).replace("stages:\n", _SCORED, 1).replace("stages:\n", _WORLD, 1)
    made = bench.run(text, {"asker.py": _ASKER})
    assert made["it"].files.is_dir()
