"""Multi-turn training: a randomly initialized model learns in an environment, and an eval confirms it."""

import json

import pytest
from tests.runtime.environments.episode_recipe import PARAMS, episode_recipe
from tests.runtime.methods.stage_harness import StageHarness, metrics

from posttrain.runtime.store.products import Product

pytestmark = pytest.mark.slow


def measured(product: Product, metric: str) -> float:
    return json.loads((product.files / "metrics.json").read_text())[metric]["value"]


_PPO = (
    "max_steps: 80, batch_size: 64, num_ppo_epochs: 2, learning_rate: 1.0e-2, max_completion_length: 8,"
    " kl_coef: 0.01"
)


@pytest.mark.parametrize(("method", "params"), [("grpo", PARAMS), ("rloo", PARAMS), ("ppo", _PPO)])
def test_a_method_learns_to_guess_by_what_it_is_told(method: str, params: str, bench: StageHarness) -> None:
    made = bench.run(episode_recipe(params=params, method=method))
    assert measured(made["before"], "success") < 0.5
    assert measured(made["after"], "success") > 0.9
    # A single guess finds one of three numbers. A higher score requires the use of the hints.
    assert metrics(made["grpo"], "reward/score")[-1] > 0.9
