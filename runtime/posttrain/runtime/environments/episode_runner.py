"""Plays episodes side by side: what a model says goes in, observations come out, and in the end a score.

A failure of the environment is never taken for one of the model: it ends the stage, or the episode
has no score, or the one that the recipe names.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from posttrain.runtime.environments.environment_protocol import (
    Action,
    Episode,
    EpisodeError,
    EpisodeFactory,
    Row,
)
from posttrain.runtime.environments.tool_actions import parse_actions
from posttrain.runtime.errors import StepError
from posttrain.spec.keys import digest

Given = TypeVar("Given")


@dataclass(frozen=True, kw_only=True)
class EnvironmentSession:
    """An environment as a step has it."""

    factory: EpisodeFactory
    kind: str
    acts: str
    # The columns of a row that an episode is given.
    columns: Sequence[str]
    low: float
    high: float
    turns: int
    turn_tokens: int | None
    reply: str
    on_error: str | float
    # Those of the columns that are text, also where a chat template has made turns of one.
    text_columns: frozenset[str] = frozenset()

    def episode_row(self, row: Row) -> Row:
        """What an episode is given of a row."""
        return {
            name: _join_turns(row[name]) if name in self.text_columns else row[name] for name in self.columns
        }

    def format_observation(self, observation: str) -> str:
        """An observation as it stands in plain text."""
        return self.reply.replace("{observation}", observation) if observation else ""


@dataclass
class EpisodeState:
    """One episode under way."""

    row: Row
    seed: int
    episode: Episode
    # What the environment said first, and then the turns: assistant and user by turns.
    first_observation: str = ""
    messages: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    turns: int = 0
    # Why it is over: "done", "turns", "length", "error" or "unanswered"; None while it goes on.
    end: str | None = None
    reason: str | None = None
    score: float | None = None

    @property
    def observation(self) -> str:
        """What the model is to answer."""
        return self.messages[-1]["content"] if self.messages else self.first_observation


def _join_turns(turns: Any) -> Any:
    return "".join(str(turn["content"]) for turn in turns) if isinstance(turns, list) else turns


def start_episodes(world: EnvironmentSession, rows: Sequence[Row], seed: int) -> list[EpisodeState]:
    """An episode for each row. Equal rows give equal episodes, whenever they are played."""
    plays: list[EpisodeState] = []
    for row in rows:
        given = world.episode_row(row)
        own = int(digest([seed, given])[:12], 16)
        plays.append(EpisodeState(row=given, seed=own, episode=world.factory.open()))
    _for_each(world, plays, lambda play: _reset(world, play))
    return plays


def step_episodes(world: EnvironmentSession, plays: Sequence[EpisodeState], texts: Sequence[str]) -> None:
    """Hand each episode its turn, and take in what comes of it. Those that are over get their score."""
    paired = list(zip(plays, texts, strict=True))
    _for_each(world, paired, lambda pair: _take_turn(world, *pair))


def abandon_episode(
    world: EnvironmentSession, play: EpisodeState, end: str, reason: str | None = None
) -> None:
    """End an episode that cannot go on: with the score so far where there are no tokens left for it."""
    if end == "length":
        _finish(world, play, end)
        return
    play.end, play.reason = end, reason
    with suppress(Exception):
        play.episode.close()


def episode_record(world: EnvironmentSession, play: EpisodeState) -> dict[str, Any]:
    """An episode as rewards and tables read it."""
    solved = None if play.score is None else play.score >= world.high
    return {
        "seed": play.seed,
        "words": model_text(play),
        "score": play.score,
        "solved": solved,
        "turns": play.turns,
        "end": play.end,
        "reason": play.reason,
    }


def model_text(play: EpisodeState) -> str:
    """What the model said, without what it was told."""
    return "\n".join(turn["content"] for turn in play.messages if turn["role"] == "assistant")


def transcript(play: EpisodeState) -> list[dict[str, str]]:
    first = [{"role": "user", "content": play.first_observation}] if play.first_observation else []
    return [*first, *play.messages]


def _reset(world: EnvironmentSession, play: EpisodeState) -> None:
    def reset() -> None:
        play.first_observation = play.episode.reset(play.row, play.seed)

    _guard_failures(world, play, reset)


def _take_turn(world: EnvironmentSession, play: EpisodeState, text: str) -> None:
    play.messages.append({"role": "assistant", "content": text})
    play.turns += 1

    def step() -> None:
        observation, done = _apply_actions(world, play.episode, text)
        if observation:
            play.messages.append({"role": "user", "content": observation})
        if done or play.turns >= world.turns:
            _finish(world, play, "done" if done else "turns")

    _guard_failures(world, play, step)


def _apply_actions(world: EnvironmentSession, episode: Episode, text: str) -> tuple[str, bool]:
    """A turn may call several tools; the first that ends the episode is the last one called."""
    actions: Sequence[Action] = [text]
    if world.acts == "tools":
        try:
            actions = parse_actions(text)
        except ValueError as error:
            return f"error: {error}", False
    seen: list[str] = []
    for action in actions:
        observation, done = episode.step(action)
        seen.append(observation)
        if done:
            return "\n".join(filter(None, seen)), True
    return "\n".join(filter(None, seen)), False


def _finish(world: EnvironmentSession, play: EpisodeState, end: str) -> None:
    play.end = end

    def score() -> None:
        play.score = _validate_score(world, play.episode.score())

    _guard_failures(world, play, score)
    if play.end != "error":
        _guard_failures(world, play, play.episode.close)


def _validate_score(world: EnvironmentSession, score: Any) -> float:
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise TypeError(f"its score {score!r} is no number")
    if not world.low <= score <= world.high:  # a NaN does not lie there either
        raise ValueError(f"its score {score:g} does not lie in {world.low:g} .. {world.high:g}")
    return float(score)


def _guard_failures(world: EnvironmentSession, play: EpisodeState, work: Callable[[], None]) -> None:
    """Do what the environment is asked; what it raises is its own failure."""
    try:
        work()
    except StepError:
        raise
    except Exception as error:
        play.end, play.reason = "error", _error_message(error)
        play.score = None if isinstance(world.on_error, str) else float(world.on_error)
        with suppress(Exception):
            play.episode.close()
        if world.on_error == "fail":
            when = f"at turn {play.turns}" if play.turns else "when its episode began"
            message = f"the environment `{world.kind}` failed {when}: {play.reason}"
            advice = "mend the environment, or let such episodes go without a score (`on_error: abstain`)"
            raise StepError(message, advice) from error


def _error_message(error: Exception) -> str:
    return str(error) if isinstance(error, EpisodeError) else f"{type(error).__name__}: {error}"


def _for_each(world: EnvironmentSession, items: Sequence[Given], work: Callable[[Given], None]) -> None:
    if world.factory.max_concurrency == 1 or len(items) < 2:
        for item in items:
            work(item)
        return
    with ThreadPoolExecutor(world.factory.max_concurrency, thread_name_prefix="episodes") as pool:
        for _ in pool.map(work, items):
            pass
