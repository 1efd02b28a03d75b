"""Episodes of an eval: a model plays one for each row and draw, all of them side by side, turn by turn.

Every round is written like any completions: what an attempt that was killed has kept is not written
again, since the same turns lead to the same observations.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from posttrain.runtime.engines.completion_decoding import render_prompt
from posttrain.runtime.engines.completion_log import Completion, Prompt
from posttrain.runtime.engines.engine_factory import generate_completions
from posttrain.runtime.engines.engine_protocol import TextGenerator
from posttrain.runtime.environments import episode_runner
from posttrain.runtime.environments.environment_factory import open_environment
from posttrain.runtime.environments.episode_runner import EnvironmentSession, EpisodeState
from posttrain.runtime.environments.tokenization import append_observation
from posttrain.runtime.models.context_length import context_length
from posttrain.runtime.rewards.engine.batch import EPISODES
from posttrain.runtime.step_context import StepContext
from posttrain.spec.keys import digest

Row = dict[str, Any]
TRANSCRIPT = "transcript"
UNANSWERED = "unanswered"
# How an episode that did not come to its end is told beside completions that did not.
_FINISH_REASONS = {"length": "length", "error": "error"}


@dataclass
class _EpisodeContext:
    """An episode with what the model has read and said of it."""

    state: EpisodeState
    # What the model is asked next.
    prompt: Prompt
    # What it reads before its first turn, in tokens; None where nobody can count them.
    opening_tokens: int | None = None
    tokens: int = 0
    finish: str = "stop"


# Writes a completion of each prompt: by these sampling parameters, by this seed, for the round of this name.
GenerateFn = Callable[[Sequence[Prompt], Mapping[str, Any], int, str], list[list[Completion]]]


def run_subject_episodes(
    context: StepContext,
    subject: Mapping[str, Any],
    writer: TextGenerator,
    rows: Sequence[Row],
    prompts: Sequence[Prompt],
) -> list[Row]:
    """The episodes of a model that a stage asks, each turn kept as it comes."""

    def write(given: Sequence[Prompt], sampling: Mapping[str, Any], seed: int, name: str) -> Any:
        return generate_completions(context, subject, writer, given, sampling, seed=seed, name=name)

    return run_episodes(context, rows, prompts, write, _token_counter(context, subject))


def run_episodes(
    context: StepContext,
    rows: Sequence[Row],
    prompts: Sequence[Prompt],
    write: GenerateFn,
    token_counter: "TokenCounter",
) -> list[Row]:
    """A row for each episode: the data's columns, what the model said, the transcript and the outcome."""
    world, draws = open_environment(context), context.params["sampling"]["n"]
    try:
        each = [row for row in rows for _ in range(draws)]
        plays = episode_runner.start_episodes(world, each, context.params["seed"])
        asked = [prompt for prompt in prompts for _ in range(draws)]
        contexts = [
            _start_context(play, append_observation(prompt, play.first_observation, world), token_counter)
            for play, prompt in zip(plays, asked, strict=True)
        ]
        runner = _RoundRunner(context, world, write, token_counter)
        for number in range(world.turns):
            runner.run_round([episode for episode in contexts if episode.state.end is None], number)
    finally:
        world.factory.close()
    return [
        {**row, "item": number // draws, **_episode_columns(world, episode)}
        for number, (row, episode) in enumerate(zip(each, contexts, strict=True))
    ]


@dataclass(frozen=True)
class _RoundRunner:
    """What all rounds share."""

    context: StepContext
    world: EnvironmentSession
    generate: GenerateFn
    token_counter: "TokenCounter"

    def run_round(self, contexts: Sequence[_EpisodeContext], number: int) -> None:
        """One turn of each of these episodes that the model still has room for."""
        left = {id(episode): self._remaining_tokens(episode) for episode in contexts}
        active = [episode for episode in contexts if left[id(episode)] > 0]
        for episode in contexts:
            if left[id(episode)] <= 0:
                episode_runner.abandon_episode(self.world, episode.state, "length")
        longest = [min(self.world.turn_tokens or left[id(episode)], left[id(episode)]) for episode in active]
        found = (
            self._generate_turns([episode.prompt for episode in active], max(longest), number)
            if active
            else []
        )
        answered = [
            (episode, self.token_counter.truncate(one, most))
            for episode, (one,), most in zip(active, found, longest, strict=True)
            if _record_turn(self.world, episode, one, most)
        ]
        episode_runner.step_episodes(
            self.world, [episode.state for episode, _ in answered], [text for _, text in answered]
        )
        for episode, text in answered:
            episode.prompt = self._next_prompt(episode, text)

    def _remaining_tokens(self, episode: _EpisodeContext) -> int:
        """The tokens that an episode may still have. Of what an endpoint reads nobody knows the tokens: only
        its own are counted."""
        most = self.context.params["sampling"]["max_tokens"]
        if episode.opening_tokens is None:
            return most - episode.tokens
        room = min(most, self.token_counter.context_length - episode.opening_tokens)
        return room - (self.token_counter.count(episode.prompt) - episode.opening_tokens)

    def _generate_turns(self, prompts: Sequence[Prompt], longest: int, number: int) -> list[list[Completion]]:
        """A completion of each prompt, drawn by a seed of this round."""
        sampling = {**self.context.params["sampling"], "n": 1, "max_tokens": longest}
        seed = int(digest([self.context.params["seed"], "turn", number])[:12], 16)
        return self.generate(prompts, sampling, seed, f"-turn{number}")

    def _next_prompt(self, episode: _EpisodeContext, text: str) -> Prompt:
        said = episode.state.messages[-1]
        observation = said["content"] if said["role"] == "user" else ""
        if isinstance(episode.prompt, str):
            return (
                episode.prompt
                + text
                + self.token_counter.eos_text
                + self.world.format_observation(observation)
            )
        user_turn = {"role": "user", "content": observation}
        return [*episode.prompt, {"role": "assistant", "content": text}, user_turn]


def _start_context(play: EpisodeState, prompt: Prompt, token_counter: "TokenCounter") -> _EpisodeContext:
    return _EpisodeContext(
        play, prompt, None if token_counter.tokenizer is None else token_counter.count(prompt)
    )


def _record_turn(world: EnvironmentSession, episode: _EpisodeContext, one: Completion, most: int) -> bool:
    """Note a turn; an episode whose model has not answered ends without a score."""
    episode.finish = one.finish
    episode.tokens += min(one.tokens or 0, most)
    if one.text is None:
        episode_runner.abandon_episode(world, episode.state, UNANSWERED, one.error)
    return one.text is not None


@dataclass(frozen=True)
class TokenCounter:
    """What is known of how a model reads: the end of a turn in plain text, and how much it takes in."""

    tokenizer: Any = None
    context_length: int = 0

    @property
    def eos_text(self) -> str:
        """The token by which the model has ended its turn, as text."""
        return "" if self.tokenizer is None else self.tokenizer.eos_token or ""

    def count(self, prompt: Prompt) -> int:
        return len(
            self.tokenizer(render_prompt(prompt, self.tokenizer), add_special_tokens=False)["input_ids"]
        )

    def truncate(self, one: Completion, most: int) -> str:
        """A turn within its length: all are written together, as long as the longest may be."""
        text = one.text or ""
        if self.tokenizer is None or (one.tokens or 0) <= most:
            return text
        tokens = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return self.tokenizer.decode(tokens[:most], skip_special_tokens=True)


def _token_counter(context: StepContext, subject: Mapping[str, Any]) -> TokenCounter:
    """An endpoint says nothing of itself, and answers what is too long with an error."""
    if "endpoint" in subject:
        return TokenCounter()
    from transformers import AutoConfig

    from posttrain.runtime.models import peft_adapters
    from posttrain.runtime.models.model_loader import load_tokenizer

    folder = whole = context.inputs[subject["role"]]
    while peft_adapters.is_adapter(whole):
        whole = peft_adapters.base_model_dir(whole)
    config = AutoConfig.from_pretrained(whole, trust_remote_code=False, local_files_only=True)
    return TokenCounter(load_tokenizer(folder), context_length(SimpleNamespace(config=config)))


def _episode_columns(world: EnvironmentSession, episode: _EpisodeContext) -> Row:
    unanswered = episode.state.end == UNANSWERED
    finish = episode.finish if unanswered else _FINISH_REASONS.get(str(episode.state.end), "stop")
    return {
        "completion": None if unanswered else episode_runner.model_text(episode.state),
        "tokens": episode.tokens,
        "finish": finish,
        TRANSCRIPT: episode_runner.transcript(episode.state),
        EPISODES: episode_runner.episode_record(world, episode.state),
    }
