"""Plays episodes side by side: what a model says goes in, observations come out, and in the end a score.

A failure of the environment is never taken for one of the model: it ends the stage, or the episode
has no score, or the one that the recipe names.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from posttrain.runtime.environments.protocol import Action, Episode, Place, Row, Trouble
from posttrain.runtime.environments.tools import actions_of
from posttrain.runtime.faults import StepFault
from posttrain.spec.keys import digest

Given = TypeVar("Given")


@dataclass(frozen=True, kw_only=True)
class World:
    """An environment as a step has it."""

    place: Place
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
    texts: frozenset[str] = frozenset()

    def given(self, row: Row) -> Row:
        """What an episode is given of a row."""
        return {name: _text(row[name]) if name in self.texts else row[name] for name in self.columns}

    def replied(self, observation: str) -> str:
        """An observation as it stands in plain text."""
        return self.reply.replace("{observation}", observation) if observation else ""


@dataclass
class Play:
    """One episode under way."""

    row: Row
    seed: int
    episode: Episode
    # What the environment said first, and then the turns: assistant and user by turns.
    first: str = ""
    said: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    turns: int = 0
    # Why it is over: "done", "turns", "length", "error" or "unanswered"; None while it goes on.
    end: str | None = None
    reason: str | None = None
    score: float | None = None

    @property
    def observation(self) -> str:
        """What the model is to answer."""
        return self.said[-1]["content"] if self.said else self.first


def _text(turns: Any) -> Any:
    return "".join(str(turn["content"]) for turn in turns) if isinstance(turns, list) else turns


def begin(world: World, rows: Sequence[Row], seed: int) -> list[Play]:
    """An episode for each row. Equal rows give equal episodes, whenever they are played."""
    plays: list[Play] = []
    for row in rows:
        given = world.given(row)
        own = int(digest([seed, given])[:12], 16)
        plays.append(Play(row=given, seed=own, episode=world.place.open()))
    _each(world, plays, lambda play: _reset(world, play))
    return plays


def act(world: World, plays: Sequence[Play], texts: Sequence[str]) -> None:
    """Hand each episode its turn, and take in what comes of it. Those that are over get their score."""
    paired = list(zip(plays, texts, strict=True))
    _each(world, paired, lambda pair: _turn(world, *pair))


def leave(world: World, play: Play, end: str, reason: str | None = None) -> None:
    """End an episode that cannot go on: with the score so far where there are no tokens left for it."""
    if end == "length":
        _over(world, play, end)
        return
    play.end, play.reason = end, reason
    with suppress(Exception):
        play.episode.close()


def told(world: World, play: Play) -> dict[str, Any]:
    """An episode as rewards and tables read it."""
    solved = None if play.score is None else play.score >= world.high
    return {
        "seed": play.seed,
        "words": words(play),
        "score": play.score,
        "solved": solved,
        "turns": play.turns,
        "end": play.end,
        "reason": play.reason,
    }


def words(play: Play) -> str:
    """What the model said, without what it was told."""
    return "\n".join(turn["content"] for turn in play.said if turn["role"] == "assistant")


def transcript(play: Play) -> list[dict[str, str]]:
    first = [{"role": "user", "content": play.first}] if play.first else []
    return [*first, *play.said]


def _reset(world: World, play: Play) -> None:
    def reset() -> None:
        play.first = play.episode.reset(play.row, play.seed)

    _guarded(world, play, reset)


def _turn(world: World, play: Play, text: str) -> None:
    play.said.append({"role": "assistant", "content": text})
    play.turns += 1

    def step() -> None:
        observation, done = _stepped(world, play.episode, text)
        if observation:
            play.said.append({"role": "user", "content": observation})
        if done or play.turns >= world.turns:
            _over(world, play, "done" if done else "turns")

    _guarded(world, play, step)


def _stepped(world: World, episode: Episode, text: str) -> tuple[str, bool]:
    """A turn may call several tools; the first that ends the episode is the last one called."""
    actions: Sequence[Action] = [text]
    if world.acts == "tools":
        try:
            actions = actions_of(text)
        except ValueError as error:
            return f"error: {error}", False
    seen: list[str] = []
    for action in actions:
        observation, done = episode.step(action)
        seen.append(observation)
        if done:
            return "\n".join(filter(None, seen)), True
    return "\n".join(filter(None, seen)), False


def _over(world: World, play: Play, end: str) -> None:
    play.end = end

    def score() -> None:
        play.score = _checked(world, play.episode.score())

    _guarded(world, play, score)
    if play.end != "error":
        _guarded(world, play, play.episode.close)


def _checked(world: World, score: Any) -> float:
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise TypeError(f"its score {score!r} is no number")
    if not world.low <= score <= world.high:  # a NaN does not lie there either
        raise ValueError(f"its score {score:g} does not lie in {world.low:g} .. {world.high:g}")
    return float(score)


def _guarded(world: World, play: Play, work: Callable[[], None]) -> None:
    """Do what the environment is asked; what it raises is its own failure."""
    try:
        work()
    except StepFault:
        raise
    except Exception as error:
        play.end, play.reason = "error", _said(error)
        play.score = None if isinstance(world.on_error, str) else float(world.on_error)
        with suppress(Exception):
            play.episode.close()
        if world.on_error == "fail":
            when = f"at turn {play.turns}" if play.turns else "when its episode began"
            message = f"the environment `{world.kind}` failed {when}: {play.reason}"
            advice = "mend the environment, or let such episodes go without a score (`on_error: abstain`)"
            raise StepFault(message, advice) from error


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, Trouble) else f"{type(error).__name__}: {error}"


def _each(world: World, items: Sequence[Given], work: Callable[[Given], None]) -> None:
    if world.place.at_once == 1 or len(items) < 2:
        for item in items:
            work(item)
        return
    with ThreadPoolExecutor(world.place.at_once, thread_name_prefix="episodes") as pool:
        for _ in pool.map(work, items):
            pass
