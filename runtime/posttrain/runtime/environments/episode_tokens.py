"""Episodes as token sequences for training, with a mask of the tokens that the model generated.

The trained model generates every turn through a `TokenGenerator` of its trainer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from posttrain.runtime.chat_prompts import Prompt
from posttrain.runtime.distributed.process_group import all_reduce_any
from posttrain.runtime.environments import episode_runner
from posttrain.runtime.environments.episode_runner import EnvironmentSession, EpisodeState
from posttrain.runtime.environments.tokenization import EpisodeTokenizer
from posttrain.runtime.errors import StepError

# The generated tokens after each prefix, and their log-probabilities if known.
GeneratedTurns = tuple[list[list[int]], list[list[float]] | None]


class TokenGenerator(Protocol):
    """Generates turns with the trained model."""

    @property
    def tokenizer(self) -> Any: ...

    @property
    def ends(self) -> Sequence[int]:
        """The tokens that end a turn."""
        ...

    @property
    def longest(self) -> int:
        """The maximum number of tokens of an episode after its prompt."""
        ...

    @property
    def context(self) -> int:
        """The model's context length."""
        ...

    def generate(self, prefixes: list[list[int]], limit: int) -> GeneratedTurns:
        """Generate at most `limit` tokens after each of these prefixes."""
        ...


@dataclass
class TokenizedEpisode:
    """An episode as a token sequence."""

    state: EpisodeState
    prompt: list[int]
    # The maximum number of tokens after the prompt.
    max_tokens: int
    # The prompt before tokenization, without the first observation.
    given: Prompt = ""
    tokens: list[int] = field(default_factory=list[int])
    # 1 for a token that the model generated, 0 for an observation.
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
    """Finished episodes."""

    episodes: list[TokenizedEpisode]
    # The record of each episode for rewards and tables.
    outcomes: list[dict[str, Any]]
    # Whether the log-probabilities of the tokens are known.
    has_logprobs: bool


def run_token_episodes(
    session: EnvironmentSession,
    seed: int,
    rows: Sequence[Any],
    prompts: Sequence[Any],
    generator: TokenGenerator,
) -> EpisodeBatch:
    """Run an episode for each row, in parallel, until all are over."""
    states = episode_runner.start_episodes(session, rows, seed)
    tokenizer = EpisodeTokenizer(generator.tokenizer, generator.ends, session)
    episodes = [
        _start_episode(tokenizer, prompt, state, generator)
        for prompt, state in zip(prompts, states, strict=True)
    ]
    has_logprobs = False
    while all_reduce_any(any(one.state.end is None for one in episodes)):
        has_logprobs = _run_round(session, tokenizer, episodes, generator) or has_logprobs
    for one in episodes:
        if not one.tokens:  # the environment failed before the model's first turn
            one.append([generator.tokenizer.eos_token_id], 0)
    return EpisodeBatch(
        episodes, [episode_runner.episode_record(session, one.state) for one in episodes], has_logprobs
    )


def _start_episode(
    tokenizer: EpisodeTokenizer, prompt: Any, state: EpisodeState, generator: TokenGenerator
) -> TokenizedEpisode:
    tokens = tokenizer.encode_opening(prompt, state.first_observation)
    room = min(generator.longest, generator.context - len(tokens))
    if room < 1:
        raise StepError(
            f"a prompt with its first observation has {len(tokens)} tokens and does not fit in the model's"
            f" context of {generator.context}",
            "shorten the prompts, or use a model with a longer context",
        )
    return TokenizedEpisode(state=state, prompt=tokens, given=prompt, max_tokens=room)


def _run_round(
    session: EnvironmentSession,
    tokenizer: EpisodeTokenizer,
    episodes: list[TokenizedEpisode],
    generator: TokenGenerator,
) -> bool:
    """Run one turn of every active episode. Returns whether the engine reported log-probabilities.

    If several processes shard a model, all of them generate as long as one has an active episode.
    """
    active = [one for one in episodes if one.state.end is None]
    longest = [min(session.turn_tokens or one.remaining, one.remaining) for one in active]
    prefixes = [one.prompt + one.tokens for one in active] or [episodes[0].prompt]
    turns, logprobs = generator.generate(prefixes, max(longest, default=1))
    texts: list[str] = []
    for place, one in enumerate(active):
        turn = turns[place][: one.remaining]
        one.append(turn, 1, logprobs[place][: len(turn)] if logprobs else None)
        texts.append(tokenizer.decode(turn))
    episode_runner.step_episodes(session, [one.state for one in active], texts)
    for one in active:
        _append_reply(session, tokenizer, one)
    return logprobs is not None


def _append_reply(session: EnvironmentSession, tokenizer: EpisodeTokenizer, one: TokenizedEpisode) -> None:
    """Append the observation, if there is room for it and for another turn."""
    if one.state.end is not None:
        # A completion without an end token would count as truncated.
        one.append(tokenizer.end_tokens(one.tokens[-1])[: one.remaining], 0)
        return
    tokens = tokenizer.encode_reply(one.state, one.tokens[-1], one.given)
    if len(tokens) < one.remaining:
        one.append(tokens, 0)
    else:
        episode_runner.abandon_episode(session, one.state, "length")
