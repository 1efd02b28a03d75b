"""The batches that TRL's GRPO trainer gets for episodes: tokens, masks and log-probabilities."""

import inspect
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.environments.episode_recipe import GUESS, episode_recipe
from tests.runtime.methods.stage_harness import StageHarness, compile_plan
from tests.runtime.trl_compat.necessity import obsolete
from trl.trainer.grpo_trainer import GRPOTrainer

from posttrain.runtime.events import EventWriter
from posttrain.runtime.plan_params import read_step_params
from posttrain.runtime.rewards.engine.batch import EPISODES
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.training.rollout_patches import patch_episodes

_LONGER = GUESS.replace("turns: 2", "turns: 3").replace("'{observation}'", "'?{observation}?'")


def trainer_for(bench: StageHarness, text: str, folder: Path, tokens: int) -> tuple[Any, list[Any]]:
    """A real trainer for the model of the recipe, and the arguments of its reward function."""
    from datasets import Dataset
    from trl.trainer.grpo_config import GRPOConfig

    from posttrain.runtime.models.model_loader import load_model, load_tokenizer

    plan = compile_plan(text)
    model = bench.run_step(plan, plan.step("models.base")).files
    seen: list[Any] = []

    def reward(completions: list[Any], **columns: Any) -> list[float]:
        seen.append(columns[EPISODES])
        return [episode["score"] for episode in columns[EPISODES]]

    tokenizer = load_tokenizer(model)
    prompt: Any = [{"role": "user", "content": "?"}] if tokenizer.chat_template else "?"
    rows = [{"prompt": prompt, "target": 1 + number % 3} for number in range(8)]
    trainer = GRPOTrainer(
        model=load_model(model),
        args=GRPOConfig(
            output_dir=str(folder / "out"),
            per_device_train_batch_size=8,
            num_generations=2,
            max_completion_length=tokens,
            report_to="none",
            use_cpu=True,
            seed=1,
        ),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        reward_funcs=reward,
    )
    step = plan.step("grpo").model_copy()
    context = StepContext(
        step=step,
        params=read_step_params(step),
        inputs={},
        files={},
        out=folder,
        work=folder,
        events=EventWriter(folder / "events.jsonl"),
    )
    patch_episodes(context, trainer)
    return trainer, seen


def test_trl_passes_rollout_func_only_the_prompts() -> None:
    source = inspect.getsource(GRPOTrainer._generate)
    assert "self.rollout_func(prompts, self)" in source, obsolete("grpo_episodes")


@pytest.mark.slow
@pytest.mark.parametrize("chat", [False, True], ids=["plain", "chat"])
@pytest.mark.parametrize(("tokens", "room"), [(1, 40), (3, 40), (2, 6)])
def test_what_the_model_was_told_is_kept_out_of_the_loss(
    bench: StageHarness, tmp_path: Path, tokens: int, room: int, chat: bool
) -> None:
    text = episode_recipe(_LONGER, tokens=tokens, chat=chat)
    trainer, seen = trainer_for(bench, text, tmp_path, room)
    rows = [dict(trainer.train_dataset[number // 2]) for number in range(8)]
    made = trainer._generate_and_score_completions(rows)
    (episodes,) = seen
    end = trainer._tokenizer.eos_token_id
    for number, episode in enumerate(episodes):
        length = int(made["completion_mask"][number].sum())
        ids = made["completion_ids"][number][:length].tolist()
        own = made["tool_mask"][number][:length].tolist()
        assert length <= room
        turns = runs_of(ids, own)
        # The loss includes the model's turns, and no observation.
        said = [trainer._tokenizer.decode(ids, skip_special_tokens=True) for ids, mine in turns if mine]
        assert "\n".join(said) == episode["words"]
        assert len(said) == episode["turns"]
        result = [trainer._tokenizer.decode(ids, skip_special_tokens=True) for ids, mine in turns if not mine]
        answers = ("", "<", ">", "?") if chat else ("", "?<?", "?>?", "???")
        assert set(result) <= set(answers)
        # Every turn but the last has an end token, generated or appended. A finished episode has one too.
        parts = [ids for ids, _ in turns]
        for place, (ids, mine) in enumerate(turns[:-1]):
            if mine:
                assert ids[-1] == end or parts[place + 1][0] == end
        if episode["end"] in ("done", "turns") and length < room:
            assert ids[-1] == end or turns[-1][0][-1] == end
    assert {episode["end"] for episode in episodes} <= {"done", "turns", "length"}
    if room == 6:
        assert "length" in {episode["end"] for episode in episodes}


def runs_of(ids: list[int], own: list[int]) -> list[tuple[list[int], int]]:
    """The tokens in runs with the same mask value."""
    runs: list[tuple[list[int], int]] = []
    for token, mine in zip(ids, own, strict=True):
        if not runs or runs[-1][1] != mine:
            runs.append(([], mine))
        runs[-1][0].append(token)
    return runs


@pytest.mark.slow
def test_equal_rows_of_a_group_play_the_same_episode(bench: StageHarness, tmp_path: Path) -> None:
    trainer, seen = trainer_for(bench, episode_recipe(_LONGER), tmp_path, 40)
    trainer._generate_and_score_completions([dict(trainer.train_dataset[n // 2]) for n in range(8)])
    seeds = [episode["seed"] for episode in seen[0]]
    assert all(seeds[place] == seeds[place + 1] for place in range(0, 8, 2))
    assert len(set(seeds)) == 3  # of the four rows, the first and the last have the same target
