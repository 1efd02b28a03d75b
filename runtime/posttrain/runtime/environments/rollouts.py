"""Episodes in place of completions, for a TRL trainer: what the model was told is kept out of the loss.

TRL hands a `rollout_func` the prompts alone. The rows that they stand in, which episodes begin with,
are taken on their way to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from posttrain.runtime.context import Context
from posttrain.runtime.environments import playing
from posttrain.runtime.environments.opening import declared, opened
from posttrain.runtime.environments.phrasing import Phrasing
from posttrain.runtime.environments.playing import Play, World
from posttrain.runtime.faults import StepFault
from posttrain.runtime.launch.group import any_of
from posttrain.runtime.models.length import context_of
from posttrain.runtime.rewards.batch import EPISODES


def act(context: Context, trainer: Any) -> None:
    """Have the trainer learn from episodes, where the stage names an environment."""
    if declared(context) is None:
        return
    rollouts = Rollouts(opened(context), context.params["seed"])
    generate = trainer._generate_and_score_completions

    def with_rows(rows: list[dict[str, Any]]) -> Any:
        rollouts.rows = rows
        return generate(rows)

    trainer._generate_and_score_completions = with_rows
    trainer.rollout_func = rollouts


@dataclass
class _Sequence:
    """An episode as tokens."""

    play: Play
    prompt: list[int]
    # How many tokens there may be after the prompt.
    room: int
    tokens: list[int] = field(default_factory=list[int])
    # 1 for a token of the model's, 0 for one that it was told.
    own: list[int] = field(default_factory=list[int])
    chances: list[float] = field(default_factory=list[float])

    @property
    def left(self) -> int:
        return self.room - len(self.tokens)

    def add(self, tokens: Sequence[int], own: int, chances: Sequence[float] | None = None) -> None:
        self.tokens += tokens
        self.own += [own] * len(tokens)
        self.chances += chances or [0.0] * len(tokens)


class Rollouts:
    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._seed = seed
        # Those of the generation under way, one for each completion.
        self.rows: list[dict[str, Any]] = []

    def __call__(self, prompts: list[Any], trainer: Any) -> dict[str, Any]:
        plays = playing.begin(self._world, self.rows, self._seed)
        phrasing = Phrasing(trainer._tokenizer, trainer.eos_token_ids, self._world)
        pairs = zip(prompts, plays, strict=True)
        sequences = [self._begun(phrasing, prompt, play, trainer) for prompt, play in pairs]
        written = False
        while any_of(any(one.play.end is None for one in sequences)):
            written = self._round(phrasing, sequences, trainer) or written
        for one in sequences:
            if not one.tokens:  # its environment failed before the model's first turn
                one.add([trainer._tokenizer.eos_token_id], 0)
        return {
            "prompt_ids": [one.prompt for one in sequences],
            "completion_ids": [one.tokens for one in sequences],
            "logprobs": [one.chances for one in sequences] if written else None,
            "env_mask": [one.own for one in sequences],
            EPISODES: [playing.told(self._world, one.play) for one in sequences],
        }

    def _begun(self, phrasing: Phrasing, prompt: Any, play: Play, trainer: Any) -> _Sequence:
        tokens = phrasing.opening(prompt, play.first)
        room = min(trainer.max_completion_length, context_of(trainer.model) - len(tokens))
        if room < 1:
            raise StepFault(
                f"a prompt with its first observation has {len(tokens)} tokens, which leaves no room in the"
                f" model's context of {context_of(trainer.model)}",
                "shorten the prompts, or take a model with a longer context",
            )
        return _Sequence(play=play, prompt=tokens, room=room)

    def _round(self, phrasing: Phrasing, sequences: list[_Sequence], trainer: Any) -> bool:
        """A turn of every episode that goes on; whether the engine told the chances of its tokens.

        Where several processes share a model, all of them write as long as one has something to write.
        """
        active = [one for one in sequences if one.play.end is None]
        longest = [min(self._world.turn_tokens or one.left, one.left) for one in active]
        given = [one.prompt + one.tokens for one in active] or [sequences[0].prompt]
        found, chances = _written(trainer, given, max(longest, default=1))
        texts: list[str] = []
        for place, one in enumerate(active):
            turn = found[place][: one.left]
            one.add(turn, 1, chances[place][: len(turn)] if chances else None)
            texts.append(phrasing.text(turn))
        playing.act(self._world, [one.play for one in active], texts)
        for one in active:
            self._reply(phrasing, one)
        return chances is not None

    def _reply(self, phrasing: Phrasing, one: _Sequence) -> None:
        """Tell the model what came of its turn, if there is room for that and for another turn."""
        if one.play.end is not None:
            # Over all the same: what ends without an end token counts as cut short.
            one.add(phrasing.ended(one.tokens[-1])[: one.left], 0)
            return
        tokens = phrasing.reply(one.play, one.tokens[-1])
        if len(tokens) < one.left:
            one.add(tokens, 0)
        else:
            playing.leave(self._world, one.play, "length")


def _written(
    trainer: Any, given: list[list[int]], limit: int
) -> tuple[list[list[int]], list[list[float]] | None]:
    """What the trainer's own engine writes after these tokens, with at most so many new ones."""
    engine, name = (
        (trainer.vllm_generation, "max_completion_length")
        if trainer.use_vllm
        else (trainer.generation_config, "max_new_tokens")
    )
    before = getattr(engine, name)
    setattr(engine, name, limit)
    try:
        return trainer._generate_single_turn(given, None, {}, 1)
    finally:
        setattr(engine, name, before)
