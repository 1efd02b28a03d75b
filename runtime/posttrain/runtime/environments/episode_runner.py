"""Runs episodes in parallel: takes the model's turns, returns observations, and finally a score.

A failure of the environment never counts as a failure of the model. Depending on `on_error`, it ends the
stage, leaves the episode without a score, or sets a fixed score.
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
from posttrain.runtime.environments.tool_actions import calls_tools, parse_actions
from posttrain.runtime.errors import StepError
from posttrain.runtime.user_errors import FirstErrors, describe_values, extension_traceback
from posttrain.spec.keys import digest
from posttrain.spec.messages import turn_text

Given = TypeVar("Given")


@dataclass(frozen=True, kw_only=True)
class EnvironmentSession:
    """A step's environment with its settings."""

    factory: EpisodeFactory
    kind: str
    acts: str
    # The columns of a row that an episode receives.
    columns: Sequence[str]
    low: float
    high: float
    turns: int
    turn_tokens: int | None
    reply: str
    on_error: str | float
    # The role of observations that answer tool calls. Others are user turns.
    tool_role: str = "user"
    # The columns with text. A conversational trainer may have converted one to messages.
    text_columns: frozenset[str] = frozenset()
    first_errors: FirstErrors = field(default_factory=FirstErrors)

    def episode_row(self, row: Row) -> Row:
        """The part of a row that an episode receives."""
        return {
            name: _join_turns(row[name]) if name in self.text_columns else row[name] for name in self.columns
        }

    def format_observation(self, observation: str) -> str:
        """Format an observation for plain-text prompts."""
        return self.reply.replace("{observation}", observation) if observation else ""


@dataclass
class EpisodeState:
    """The state of one episode."""

    row: Row
    seed: int
    episode: Episode
    # The first observation, then the messages of the assistant, each with the observation that answers it.
    first_observation: str = ""
    messages: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    turns: int = 0
    # Why it ended: "done", "turns", "length", "error" or "unanswered"; None while it is active.
    end: str | None = None
    reason: str | None = None
    score: float | None = None

    @property
    def observation(self) -> str:
        """The latest observation, which the model answers next."""
        return self.messages[-1]["content"] if self.messages else self.first_observation


def _join_turns(turns: Any) -> Any:
    return "".join(map(turn_text, turns)) if isinstance(turns, list) else turns


def start_episodes(session: EnvironmentSession, rows: Sequence[Row], seed: int) -> list[EpisodeState]:
    """Start an episode for each row. Equal rows get equal seeds, and so equal episodes."""
    states: list[EpisodeState] = []
    for row in rows:
        episode_row = session.episode_row(row)
        episode_seed = int(digest([seed, episode_row])[:12], 16)
        states.append(EpisodeState(row=episode_row, seed=episode_seed, episode=session.factory.open()))
    _for_each(session, states, lambda state: _reset(session, state))
    return states


def step_episodes(session: EnvironmentSession, states: Sequence[EpisodeState], texts: Sequence[str]) -> None:
    """Apply the model's turn to each episode, and score the episodes that end."""
    paired = list(zip(states, texts, strict=True))
    _for_each(session, paired, lambda pair: _take_turn(session, *pair))


def abandon_episode(
    session: EnvironmentSession, state: EpisodeState, end: str, reason: str | None = None
) -> None:
    """End an episode early. If it ran out of tokens (`length`), it keeps its score so far."""
    if end == "length":
        _finish(session, state, end)
        return
    state.end, state.reason = end, reason
    with suppress(Exception):
        state.episode.close()


def episode_record(session: EnvironmentSession, state: EpisodeState) -> dict[str, Any]:
    """The record of an episode for rewards and tables."""
    solved = None if state.score is None else state.score >= session.high
    return {
        "seed": state.seed,
        "words": model_text(state),
        "score": state.score,
        "solved": solved,
        "turns": state.turns,
        "end": state.end,
        "reason": state.reason,
    }


def model_text(state: EpisodeState) -> str:
    """The text of the model's turns, without observations."""
    return "\n".join(turn["content"] for turn in state.messages if turn["role"] == "assistant")


def transcript(state: EpisodeState) -> list[dict[str, str]]:
    first = [{"role": "user", "content": state.first_observation}] if state.first_observation else []
    return [*first, *state.messages]


def _reset(session: EnvironmentSession, state: EpisodeState) -> None:
    def reset() -> None:
        state.first_observation = state.episode.reset(state.row, state.seed)

    _guard_failures(session, state, reset)


def _take_turn(session: EnvironmentSession, state: EpisodeState, text: str) -> None:
    state.messages.append({"role": "assistant", "content": text})
    state.turns += 1

    def step() -> None:
        observation, done = _apply_actions(session, state.episode, text)
        if observation:
            role = session.tool_role if session.acts == "tools" and calls_tools(text) else "user"
            state.messages.append({"role": role, "content": observation})
        if done or state.turns >= session.turns:
            _finish(session, state, "done" if done else "turns")

    _guard_failures(session, state, step)


def _apply_actions(session: EnvironmentSession, episode: Episode, text: str) -> tuple[str, bool]:
    """Apply the actions of a turn in order, until one ends the episode. A turn may have several calls."""
    actions: Sequence[Action] = [text]
    if session.acts == "tools":
        try:
            actions = parse_actions(text)
        except ValueError as error:
            return f"error: {error}", False
    observations: list[str] = []
    for action in actions:
        observation, done = episode.step(action)
        observations.append(observation)
        if done:
            return "\n".join(filter(None, observations)), True
    return "\n".join(filter(None, observations)), False


def _finish(session: EnvironmentSession, state: EpisodeState, end: str) -> None:
    state.end = end

    def score() -> None:
        state.score = _validate_score(session, state.episode.score())

    _guard_failures(session, state, score)
    if state.end != "error":
        _guard_failures(session, state, state.episode.close)


def _validate_score(session: EnvironmentSession, score: Any) -> float:
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise TypeError(f"the score {score!r} is not a number")
    if not session.low <= score <= session.high:  # false for NaN too
        raise ValueError(f"the score {score:g} is outside {session.low:g} .. {session.high:g}")
    return float(score)


def _guard_failures(session: EnvironmentSession, state: EpisodeState, work: Callable[[], None]) -> None:
    """Call the environment, and handle an exception by `on_error`."""
    try:
        work()
    except StepError:
        raise
    except Exception as error:
        state.end, state.reason = "error", _error_message(error)
        details = _error_details(error, state)
        state.score = None if isinstance(session.on_error, str) else float(session.on_error)
        with suppress(Exception):
            state.episode.close()
        if session.on_error == "fail":
            when = f"at turn {state.turns}" if state.turns else "at the start of an episode"
            message = f"the environment `{session.kind}` failed {when}: {state.reason}"
            advice = "fix the environment, or set `on_error: abstain` to leave such episodes unscored"
            raise StepError(message, advice, details=details) from error
        session.first_errors.print(f"the environment `{session.kind}` failed: {state.reason}", details)


def _error_details(error: Exception, state: EpisodeState) -> str:
    """The row and the last turn of an episode that failed, and the environment's part of the traceback."""
    values: dict[str, Any] = {**state.row, "seed": state.seed}
    if state.turns:
        values["last turn"] = next(
            turn["content"] for turn in reversed(state.messages) if turn["role"] == "assistant"
        )
    lines = error.details if isinstance(error, EpisodeError) else extension_traceback(error)
    return f"row of the episode:\n{describe_values(values)}" + (f"\n{lines}" if lines else "")


def _error_message(error: Exception) -> str:
    return str(error) if isinstance(error, EpisodeError) else f"{type(error).__name__}: {error}"


def _for_each(session: EnvironmentSession, items: Sequence[Given], work: Callable[[Given], None]) -> None:
    if session.factory.max_concurrency == 1 or len(items) < 2:
        for item in items:
            work(item)
        return
    with ThreadPoolExecutor(session.factory.max_concurrency, thread_name_prefix="episodes") as pool:
        for _ in pool.map(work, items):
            pass
