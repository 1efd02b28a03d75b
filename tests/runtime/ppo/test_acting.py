"""Episodes as PPO learns from them: whose tokens they are, where they stand, and what decides them."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.runtime.ppo.small import model

from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.environments.playing import World
from posttrain.runtime.environments.protocol import Site
from posttrain.runtime.models.tokenizer import characters
from posttrain.runtime.ppo.acting import Policy, Stage, act
from posttrain.spec.extension import Environment
from posttrain.spec.reading import read

DEVICE = torch.device("cpu")
ROWS = [{"prompt": "1+2=", "target": 1 + row % 3} for row in range(6)]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    kind = CATALOG.find("environment", "guess")
    assert isinstance(kind, Environment)
    params = read(kind.params, {"low": 1, "high": 3, "below": "1", "above": "2", "unread": "0"})
    world = World(
        place=CATALOG.run("environment", "guess")(params, Site(files={}, seconds=5.0)),
        kind="guess",
        acts=kind.acts(params),
        columns=["target"],
        low=0.0,
        high=1.0,
        turns=3,
        turn_tokens=3,
        reply="={observation}=",
        on_error="fail",
    )
    return Stage(world=world, seed=3)


def played(stage: Stage, seed: int, longest: int = 24) -> tuple[Any, list[dict[str, Any]], Any]:
    tokenizer = characters("0123456789+=", [])
    sampling = {"temperature": 1.0, "top_p": 1.0, "max_new_tokens": longest}
    policy = Policy(model(), tokenizer, sampling, seed, DEVICE)
    return *act(stage, policy, ROWS, DEVICE), tokenizer


@pytest.mark.parametrize("longest", [24, 5])
def test_what_the_policy_was_told_is_read_and_not_learnt_from(stage: Stage, longest: int) -> None:
    found, outcomes, tokenizer = played(stage, 7, longest)
    assert found.count <= longest
    for row, outcome in enumerate(outcomes):
        attended = found.attention[row, -found.count :].bool()
        own = found.mask[row].bool()
        assert not bool((own & ~attended).any())
        said = tokenizer.decode(found.completions[row][own].tolist(), skip_special_tokens=True)
        assert said == outcome["words"].replace("\n", "")
        # The prompt stands right before, whole.
        prompt = found.tokens[row, : -found.count][found.attention[row, : -found.count].bool()].tolist()
        assert tokenizer.decode(prompt) == "1+2="
        assert bool(found.ended[row]) == (outcome["end"] != "length")
    if longest == 5:
        assert not bool(found.ended.all())
    else:
        assert bool((found.attention[:, -found.count :] > found.mask).any())  # something was told


def test_what_is_drawn_depends_on_the_seed_alone(stage: Stage) -> None:
    first = played(stage, 7)[0]
    torch.manual_seed(99)
    again, other = played(stage, 7)[0], played(stage, 8)[0]
    assert torch.equal(first.tokens, again.tokens)
    assert first.tokens.shape != other.tokens.shape or not torch.equal(first.tokens, other.tokens)
