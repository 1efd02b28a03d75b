"""Episodes as tokens, for methods that learn from them: who wrote each token, the model or its place.

The model that is trained writes every turn by whatever its trainer writes with: a `TokenGenerator`.
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

    def append(self, tokens: Sequence[int], own: int, logprobs: Sequence[float] | None = None) -> None:
        self.tokens += tokens
        self.model_mask += [own] * len(tokens)
        self.logprobs += logprobs or [0.0] * len(tokens)


@dataclass(frozen=True)
class EpisodeBatch:
    """Episodes that have been played."""

    episodes: list[TokenizedEpisode]
    # What rewards and tables read of each.
    outcomes: list[dict[str, Any]]
    # Whether the chances of the tokens are known.
    has_logprobs: bool


def run_token_episodes(
    session: EnvironmentSession,
    seed: int,
    rows: Sequence[Any],
    prompts: Sequence[Any],
    generator: TokenGenerator,
) -> EpisodeBatch:
    """Play an episode for each row, all of them side by side, until the last one is over."""
    states = episode_runner.start_episodes(session, rows, seed)
    tokenizer = EpisodeTokenizer(generator.tokenizer, generator.ends, session)
    episodes = [
        _start_episode(tokenizer, p, play, generator) for p, play in zip(prompts, states, strict=True)
    ]
    has_logprobs = False
    while all_reduce_any(any(one.state.end is None for one in episodes)):
        has_logprobs = _run_round(session, tokenizer, episodes, generator) or has_logprobs
    for one in episodes:
        if not one.tokens:  # its environment failed before the model's first turn
            one.append([generator.tokenizer.eos_token_id], 0)
    return EpisodeBatch(
        episodes, [episode_runner.episode_record(session, one.state) for one in episodes], has_logprobs
    )


def _start_episode(
    tokenizer: EpisodeTokenizer, prompt: Any, play: EpisodeState, generator: TokenGenerator
) -> TokenizedEpisode:
    tokens = tokenizer.encode_opening(prompt, play.first_observation)
    room = min(generator.longest, generator.context - len(tokens))
    if room < 1:
        raise StepError(
            f"a prompt with its first observation has {len(tokens)} tokens, which leaves no room in the"
            f" model's context of {generator.context}",
            "shorten the prompts, or take a model with a longer context",
        )
    return TokenizedEpisode(state=play, prompt=tokens, max_tokens=room)


def _run_round(
    session: EnvironmentSession,
    tokenizer: EpisodeTokenizer,
    episodes: list[TokenizedEpisode],
    generator: TokenGenerator,
) -> bool:
    """A turn of every episode that goes on; whether the engine told the chances of its tokens.

    Where several processes share a model, all of them write as long as one has something to write.
    """
    active = [one for one in episodes if one.state.end is None]
    longest = [min(session.turn_tokens or one.remaining, one.remaining) for one in active]
    given = [one.prompt + one.tokens for one in active] or [episodes[0].prompt]
    found, logprobs = generator.generate(given, max(longest, default=1))
    texts: list[str] = []
    for place, one in enumerate(active):
        turn = found[place][: one.remaining]
        one.append(turn, 1, logprobs[place][: len(turn)] if logprobs else None)
        texts.append(tokenizer.decode(turn))
    episode_runner.step_episodes(session, [one.state for one in active], texts)
    for one in active:
        _append_reply(session, tokenizer, one)
    return logprobs is not None


def _append_reply(session: EnvironmentSession, tokenizer: EpisodeTokenizer, one: TokenizedEpisode) -> None:
    """Tell the model what came of its turn, if there is room for that and for another turn."""
    if one.state.end is not None:
        # Over all the same: what ends without an end token counts as cut short.
        one.append(tokenizer.end_tokens(one.tokens[-1])[: one.remaining], 0)
        return
    tokens = tokenizer.encode_reply(one.state, one.tokens[-1])
    if len(tokens) < one.remaining:
        one.append(tokens, 0)
    else:
        episode_runner.abandon_episode(session, one.state, "length")
