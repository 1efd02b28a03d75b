"""Episodes in PPO: the model's tokens, padding, and reproducible sampling."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.runtime.ppo.tiny_models import tiny_model

from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.environments.environment_protocol import EpisodeResources
from posttrain.runtime.environments.episode_runner import EnvironmentSession
from posttrain.runtime.models.character_tokenizer import build_character_tokenizer
from posttrain.runtime.ppo.env_rollout import EpisodeSetup, TurnGenerator, rollout_episodes
from posttrain.spec.extension import Environment
from posttrain.spec.validation import parse_declaration

DEVICE = torch.device("cpu")
ROWS = [{"prompt": "1+2=", "target": 1 + row % 3} for row in range(6)]


@pytest.fixture
def stage(tmp_path: Path) -> EpisodeSetup:
    kind = CATALOG.find("environment", "guess")
    assert isinstance(kind, Environment)
    params = parse_declaration(
        kind.params, {"low": 1, "high": 3, "below": "1", "above": "2", "invalid_message": "0"}
    )
    world = EnvironmentSession(
        factory=CATALOG.run("environment", "guess")(params, EpisodeResources(files={}, seconds=5.0)),
        kind="guess",
        acts=kind.action_format(params),
        columns=["target"],
        low=0.0,
        high=1.0,
        turns=3,
        turn_tokens=3,
        reply="={observation}=",
        on_error="fail",
    )
    return EpisodeSetup(world=world, seed=3)


def run_rollout(stage: EpisodeSetup, seed: int, longest: int = 24) -> tuple[Any, list[dict[str, Any]], Any]:
    tokenizer = build_character_tokenizer("0123456789+=", [])
    sampling = {"temperature": 1.0, "top_p": 1.0, "max_new_tokens": longest}
    policy = TurnGenerator(tiny_model(), tokenizer, sampling, seed, DEVICE)
    return *rollout_episodes(stage, policy, ROWS, DEVICE), tokenizer


@pytest.mark.parametrize("longest", [24, 5])
def test_what_the_policy_was_told_is_read_and_not_learnt_from(stage: EpisodeSetup, longest: int) -> None:
    found, outcomes, tokenizer = run_rollout(stage, 7, longest)
    assert found.completion_length <= longest
    for row, outcome in enumerate(outcomes):
        attended = found.attention[row, -found.completion_length :].bool()
        own = found.mask[row].bool()
        assert not bool((own & ~attended).any())
        said = tokenizer.decode(found.completions[row][own].tolist(), skip_special_tokens=True)
        assert said == outcome["words"].replace("\n", "")
        # The complete prompt is directly before the completion.
        prompt = found.tokens[row, : -found.completion_length][
            found.attention[row, : -found.completion_length].bool()
        ].tolist()
        assert tokenizer.decode(prompt) == "1+2="
        assert bool(found.ended[row]) == (outcome["end"] != "length")
    if longest == 5:
        assert not bool(found.ended.all())
    else:
        assert bool(
            (found.attention[:, -found.completion_length :] > found.mask).any()
        )  # there are observations


def test_what_is_drawn_depends_on_the_seed_alone(stage: EpisodeSetup) -> None:
    first = run_rollout(stage, 7)[0]
    torch.manual_seed(99)
    again, other = run_rollout(stage, 7)[0], run_rollout(stage, 8)[0]
    assert torch.equal(first.tokens, again.tokens)
    assert first.tokens.shape != other.tokens.shape or not torch.equal(first.tokens, other.tokens)
