"""Tokens and masks of episodes with tools, computed again with `apply_chat_template` alone."""

from types import SimpleNamespace
from typing import Any

import pytest
from tests.runtime.models.test_builtin_templates import tokenizer_with

from posttrain.runtime.chat_prompts import ChatPrompt
from posttrain.runtime.environments.environment_protocol import EpisodeFactory
from posttrain.runtime.environments.episode_runner import EnvironmentSession
from posttrain.runtime.environments.episode_tokens import EpisodeBatch, run_token_episodes
from posttrain.runtime.ppo.env_rollout import _pad_episodes
from posttrain.runtime.trl_compat.grpo_episodes import _rollout_fields
from posttrain.runtime.trl_compat.rloo_episodes import _RlooEpisodes

TOOL = {
    "type": "function",
    "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object", "properties": {}}},
}
CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
# The turns of each episode, and what the environment answers.
SCRIPTS = [
    [("<think>\na\n</think>\n\n" + CALL, "12"), ("<think>\nb\n</think>\n\nIt is 12.", None)],
    [
        ("<think>\nc\n</think>\n\nno call", "try again"),
        ("<think>\nd\n</think>\n\n" + CALL, "3\n4"),
        ("<think>\ne\n</think>\n\nend", None),
    ],
    [("<think>\nf\n</think>\n\nat once", None)],
]
PROMPTS = [[{"role": "system", "content": "s"}, {"role": "user", "content": f"{n} + 1"}] for n in range(3)]


class Scripted:
    """An episode that answers as its script says, whatever the action is."""

    def __init__(self) -> None:
        self.answers: list[str | None] = []

    def reset(self, row: Any, seed: int) -> str:
        self.answers = [answer for _, answer in SCRIPTS[row["n"]]]
        return ""

    def step(self, action: Any) -> tuple[str, bool]:
        answer = self.answers.pop(0)
        return answer or "", answer is None

    def score(self) -> float:
        return 1.0

    def close(self) -> None:
        pass


class Writer:
    """Generates the scripted turns. Turns of odd episodes are cut before their end token."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer, self.ends = tokenizer, [tokenizer.eos_token_id]
        self.longest, self.context = 4000, 8000
        self.round = 0
        self.prefixes: list[list[list[int]]] = []

    def turn(self, episode: int, number: int) -> list[int]:
        ids = self.tokenizer(SCRIPTS[episode][number][0], add_special_tokens=False)["input_ids"]
        return ids if episode % 2 else [*ids, self.tokenizer.eos_token_id]

    def generate(self, prefixes: list[list[int]], limit: int) -> Any:
        self.prefixes.append(prefixes)
        active = [n for n, script in enumerate(SCRIPTS) if len(script) > self.round]
        turns = [self.turn(episode, self.round) for episode in active]
        self.round += 1
        return turns, [[-0.5] * len(one) for one in turns]


def played(name: str, tool_role: str) -> tuple[EpisodeBatch, Writer]:
    session = EnvironmentSession(
        factory=EpisodeFactory(open=Scripted),
        kind="scripted",
        acts="tools",
        columns=["n"],
        low=0.0,
        high=1.0,
        turns=5,
        turn_tokens=None,
        reply="{observation}",
        on_error="fail",
        tool_role=tool_role,
    )
    writer = Writer(tokenizer_with(name))
    rows = [{"n": n} for n in range(len(SCRIPTS))]
    prompts = [ChatPrompt(one, [TOOL]) for one in PROMPTS]
    return run_token_episodes(session, 1, rows, prompts, writer), writer


def by_hand(name: str, episode: int, tool_role: str) -> tuple[list[int], list[int], list[int]]:
    """The prompt, the tokens after it and the mask: each part of the text between two renderings."""
    tokenizer = tokenizer_with(name)

    def render(turns: list[Any], *, prompt: bool) -> str:
        return tokenizer.apply_chat_template(
            turns, tools=[TOOL], tokenize=False, add_generation_prompt=prompt, preserve_thinking=True
        )

    turns, parts = list(PROMPTS[episode]), []
    text = opening = render(turns, prompt=True)
    for said, answer in SCRIPTS[episode]:
        parts.append((said, 1))
        text += said
        ended = tokenizer.eos_token
        parts.append((ended, 0 if episode % 2 else 1))
        text += ended
        if answer is None:
            break
        role = tool_role if "<tool_call>" in said else "user"
        turns += [{"role": "assistant", "content": said}, {"role": role, "content": answer}]
        whole = render(turns, prompt=True)
        assert whole.startswith(text), "the template changes earlier turns"
        parts.append((whole[len(text) :], 0))
        text = whole
    ids, mask = [], []
    for part, own in parts:
        found = tokenizer(part, add_special_tokens=False)["input_ids"]
        ids += found
        mask += [own] * len(found)
    return tokenizer(opening, add_special_tokens=False)["input_ids"], ids, mask


@pytest.mark.parametrize("tool_role", ["tool", "user"])
@pytest.mark.parametrize("name", ["chatml", "qwen"])
def test_tokens_and_masks_are_those_of_the_template(name: str, tool_role: str) -> None:
    batch, writer = played(name, tool_role)
    for number, one in enumerate(batch.episodes):
        prompt, ids, mask = by_hand(name, number, tool_role)
        assert one.prompt == prompt
        assert one.tokens == ids
        assert one.model_mask == mask
        assert [value for value, own in zip(one.logprobs, mask, strict=True) if not own] == [
            0.0
        ] * mask.count(0)
        # What the model reads before a turn is a prefix of the conversation.
        for place, prefixes in enumerate(writer.prefixes):
            active = [n for n, script in enumerate(SCRIPTS) if len(script) > place]
            if number in active:
                before = prefixes[active.index(number)]
                assert before == (prompt + ids)[: len(before)]


def test_each_trainer_gets_this_mask() -> None:
    import torch

    batch, _ = played("chatml", "tool")
    masks = [by_hand("chatml", number, "tool")[2] for number in range(3)]
    assert _rollout_fields(batch)["env_mask"] == masks  # GRPO
    longest = max(map(len, masks))
    padded = torch.tensor([one + [0] * (longest - len(one)) for one in masks], dtype=torch.float32)
    ppo = _pad_episodes(batch.episodes, 0, torch.device("cpu"))
    assert torch.equal(ppo.mask, padded)
    assert ppo.attention.sum().item() == sum(len(one.prompt) + len(one.tokens) for one in batch.episodes)
    rloo: Any = _RlooEpisodes.__new__(_RlooEpisodes)
    rloo._batch = batch
    rloo._trainer = SimpleNamespace(
        pad_to_multiple_of=None, accelerator=SimpleNamespace(device=torch.device("cpu"))
    )
    assert torch.equal(rloo._padded_model_mask(), padded)
