"""Episodes as tokens, for methods that learn from them: who wrote each token, the model or its place.

The model that is trained writes every turn by whatever its trainer writes with: a `Scribe`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from posttrain.runtime.distributed.process_group import all_reduce_any
from posttrain.runtime.environments import episode_runner
from posttrain.runtime.environments.episode_runner import EnvironmentSession, EpisodeState
from posttrain.runtime.environments.tokenization import EpisodeTokenizer
from posttrain.runtime.errors import StepError

# What was written after each of several beginnings, and how likely each token was, where that is known.
GeneratedTurns = tuple[list[list[int]], list[list[float]] | None]


class TokenGenerator(Protocol):
    """Has turns written by the model that is trained."""

    @property
    def tokenizer(self) -> Any: ...

    @property
    def ends(self) -> Sequence[int]:
        """The tokens after which the model says no more."""
        ...

    @property
    def longest(self) -> int:
        """How many tokens an episode may have after its prompt."""
        ...

    @property
    def context(self) -> int:
        """The longest sequence that the model takes."""
        ...

    def generate(self, given: list[list[int]], limit: int) -> GeneratedTurns:
        """What the model writes after these tokens, with at most so many new ones."""
        ...


@dataclass
class TokenizedEpisode:
    """An episode as tokens."""

    state: EpisodeState
    prompt: list[int]
    # How many tokens there may be after the prompt.
    max_tokens: int
    tokens: list[int] = field(default_factory=list[int])
    # 1 for a token of the model's, 0 for one that it was told.
    model_mask: list[int] = field(default_factory=list[int])
    logprobs: list[float] = field(default_factory=list[float])

    @property
    def remaining(self) -> int:
        return self.max_tokens - len(self.tokens)

    def append(self, tokens: Sequence[int], own: int, chances: Sequence[float] | None = None) -> None:
        self.tokens += tokens
        self.model_mask += [own] * len(tokens)
        self.logprobs += chances or [0.0] * len(tokens)


@dataclass(frozen=True)
class EpisodeBatch:
    """Episodes that have been played."""

    episodes: list[TokenizedEpisode]
    # What rewards and tables read of each.
    outcomes: list[dict[str, Any]]
    # Whether the chances of the tokens are known.
    has_logprobs: bool


def run_token_episodes(
    world: EnvironmentSession, seed: int, rows: Sequence[Any], prompts: Sequence[Any], scribe: TokenGenerator
) -> EpisodeBatch:
    """Play an episode for each row, all of them side by side, until the last one is over."""
    plays = episode_runner.start_episodes(world, rows, seed)
    phrasing = EpisodeTokenizer(scribe.tokenizer, scribe.ends, world)
    acted = [_start_episode(phrasing, p, play, scribe) for p, play in zip(prompts, plays, strict=True)]
    weighed = False
    while all_reduce_any(any(one.state.end is None for one in acted)):
        weighed = _run_round(world, phrasing, acted, scribe) or weighed
    for one in acted:
        if not one.tokens:  # its environment failed before the model's first turn
            one.append([scribe.tokenizer.eos_token_id], 0)
    return EpisodeBatch(acted, [episode_runner.episode_record(world, one.state) for one in acted], weighed)


def _start_episode(
    phrasing: EpisodeTokenizer, prompt: Any, play: EpisodeState, scribe: TokenGenerator
) -> TokenizedEpisode:
    tokens = phrasing.encode_opening(prompt, play.first_observation)
    room = min(scribe.longest, scribe.context - len(tokens))
    if room < 1:
        raise StepError(
            f"a prompt with its first observation has {len(tokens)} tokens, which leaves no room in the"
            f" model's context of {scribe.context}",
            "shorten the prompts, or take a model with a longer context",
        )
    return TokenizedEpisode(state=play, prompt=tokens, max_tokens=room)


def _run_round(
    world: EnvironmentSession,
    phrasing: EpisodeTokenizer,
    acted: list[TokenizedEpisode],
    scribe: TokenGenerator,
) -> bool:
    """A turn of every episode that goes on; whether the engine told the chances of its tokens.

    Where several processes share a model, all of them write as long as one has something to write.
    """
    active = [one for one in acted if one.state.end is None]
    longest = [min(world.turn_tokens or one.remaining, one.remaining) for one in active]
    given = [one.prompt + one.tokens for one in active] or [acted[0].prompt]
    found, chances = scribe.generate(given, max(longest, default=1))
    texts: list[str] = []
    for place, one in enumerate(active):
        turn = found[place][: one.remaining]
        one.append(turn, 1, chances[place][: len(turn)] if chances else None)
        texts.append(phrasing.decode(turn))
    episode_runner.step_episodes(world, [one.state for one in active], texts)
    for one in active:
        _append_reply(world, phrasing, one)
    return chances is not None


def _append_reply(world: EnvironmentSession, phrasing: EpisodeTokenizer, one: TokenizedEpisode) -> None:
    """Tell the model what came of its turn, if there is room for that and for another turn."""
    if one.state.end is not None:
        # Over all the same: what ends without an end token counts as cut short.
        one.append(phrasing.end_tokens(one.tokens[-1])[: one.remaining], 0)
        return
    tokens = phrasing.encode_reply(one.state, one.tokens[-1])
    if len(tokens) < one.remaining:
        one.append(tokens, 0)
    else:
        episode_runner.abandon_episode(world, one.state, "length")
