"""Episodes of an eval: one for each row and sample, run in parallel, turn by turn.

The completions of every turn are logged, so a killed step resumes: the same turns lead to the same
observations.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from posttrain.runtime.chat_prompts import Prompt, prompt_turns, replace_turns
from posttrain.runtime.engines.completion_log import Completion
from posttrain.runtime.engines.engine_factory import generate_completions
from posttrain.runtime.engines.engine_protocol import TextGenerator
from posttrain.runtime.environments import episode_runner
from posttrain.runtime.environments.environment_factory import open_environment
from posttrain.runtime.environments.episode_runner import EnvironmentSession, EpisodeState
from posttrain.runtime.environments.tokenization import append_observation, last_observation
from posttrain.runtime.models.context_length import context_length
from posttrain.runtime.prompt_tokenization import tokenize_prompt
from posttrain.runtime.rewards.engine.batch import EPISODES
from posttrain.runtime.step_context import StepContext
from posttrain.spec.keys import digest
from posttrain.spec.step_params.eval_params import EvalStepParams
from posttrain.spec.step_params.generation_params import ModelTarget, SamplingOptions

Row = dict[str, Any]
TRANSCRIPT = "transcript"
UNANSWERED = "unanswered"
# The finish reasons of episodes that end early.
_FINISH_REASONS = {"length": "length", "error": "error"}


@dataclass
class _EpisodeContext:
    """An episode with the model's prompt and its token counts."""

    state: EpisodeState
    # The prompt of the next turn.
    prompt: Prompt
    # The number of tokens before the first turn; None if it cannot be counted.
    opening_tokens: int | None = None
    tokens: int = 0
    finish: str = "stop"


# Generates a completion of each prompt from the prompts, the sampling parameters, the seed and the log name.
GenerateFn = Callable[[Sequence[Prompt], SamplingOptions, int, str], list[list[Completion]]]


def run_subject_episodes(
    context: StepContext[EvalStepParams],
    model_spec: ModelTarget,
    generator: TextGenerator,
    rows: Sequence[Row],
    prompts: Sequence[Prompt],
) -> list[Row]:
    """Run the episodes of one of a stage's models. Each turn is logged."""

    def generate(prompts: Sequence[Prompt], sampling: SamplingOptions, seed: int, name: str) -> Any:
        return generate_completions(context, model_spec, generator, prompts, sampling, seed=seed, name=name)

    return run_episodes(context, rows, prompts, generate, _token_counter(context, model_spec))


def run_episodes(
    context: StepContext[EvalStepParams],
    rows: Sequence[Row],
    prompts: Sequence[Prompt],
    generate: GenerateFn,
    token_counter: "TokenCounter",
) -> list[Row]:
    """Run the episodes. Returns a row for each: data columns, completion, transcript and outcome."""
    session, draws = open_environment(context), context.params.sampling.n
    try:
        each = [row for row in rows for _ in range(draws)]
        states = episode_runner.start_episodes(session, each, context.params.seed)
        repeated_prompts = [prompt for prompt in prompts for _ in range(draws)]
        contexts = [
            _start_context(state, append_observation(prompt, state.first_observation, session), token_counter)
            for state, prompt in zip(states, repeated_prompts, strict=True)
        ]
        runner = _RoundRunner(context, session, generate, token_counter)
        for number in range(session.turns):
            runner.run_round([episode for episode in contexts if episode.state.end is None], number)
    finally:
        session.factory.close()
    return [
        {**row, "item": number // draws, **_episode_columns(session, episode)}
        for number, (row, episode) in enumerate(zip(each, contexts, strict=True))
    ]


@dataclass(frozen=True)
class _RoundRunner:
    """Runs the rounds of turns."""

    context: StepContext[EvalStepParams]
    session: EnvironmentSession
    generate: GenerateFn
    token_counter: "TokenCounter"

    def run_round(self, contexts: Sequence[_EpisodeContext], number: int) -> None:
        """Run one turn of these episodes. Episodes without remaining tokens end."""
        remaining = {id(episode): self._remaining_tokens(episode) for episode in contexts}
        active = [episode for episode in contexts if remaining[id(episode)] > 0]
        for episode in contexts:
            if remaining[id(episode)] <= 0:
                episode_runner.abandon_episode(self.session, episode.state, "length")
        limits = [
            min(self.session.turn_tokens or remaining[id(episode)], remaining[id(episode)])
            for episode in active
        ]
        turns = (
            self._generate_turns([episode.prompt for episode in active], max(limits), number)
            if active
            else []
        )
        answered = [
            (episode, self.token_counter.truncate(turn, limit))
            for episode, (turn,), limit in zip(active, turns, limits, strict=True)
            if _record_turn(self.session, episode, turn, limit)
        ]
        episode_runner.step_episodes(
            self.session, [episode.state for episode, _ in answered], [text for _, text in answered]
        )
        for episode, text in answered:
            episode.prompt = self._next_prompt(episode, text)

    def _remaining_tokens(self, episode: _EpisodeContext) -> int:
        """The tokens that an episode may still use. For an endpoint, only generated tokens are counted, since
        its tokenizer is not known."""
        limit = self.context.params.sampling.max_tokens
        if episode.opening_tokens is None:
            return limit - episode.tokens
        room = min(limit, self.token_counter.context_length - episode.opening_tokens)
        return room - (self.token_counter.count(episode.prompt) - episode.opening_tokens)

    def _generate_turns(self, prompts: Sequence[Prompt], limit: int, number: int) -> list[list[Completion]]:
        """Generate a completion of each prompt, with a seed for this round."""
        sampling = self.context.params.sampling.model_copy(update={"n": 1, "max_tokens": limit})
        seed = int(digest([self.context.params.seed, "turn", number])[:12], 16)
        return self.generate(prompts, sampling, seed, f"-turn{number}")

    def _next_prompt(self, episode: _EpisodeContext, text: str) -> Prompt:
        observation = last_observation(episode.state)
        if isinstance(episode.prompt, str):
            return (
                episode.prompt
                + text
                + self.token_counter.eos_text
                + self.session.format_observation(observation["content"])
            )
        turns = [*prompt_turns(episode.prompt), {"role": "assistant", "content": text}, observation]
        return replace_turns(episode.prompt, turns)


def _start_context(state: EpisodeState, prompt: Prompt, token_counter: "TokenCounter") -> _EpisodeContext:
    return _EpisodeContext(
        state, prompt, None if token_counter.tokenizer is None else token_counter.count(prompt)
    )


def _record_turn(
    session: EnvironmentSession, episode: _EpisodeContext, completion: Completion, limit: int
) -> bool:
    """Record a turn, and return whether the request succeeded. If not, the episode ends without a score."""
    episode.finish = completion.finish
    episode.tokens += min(completion.tokens or 0, limit)
    if completion.text is None:
        episode_runner.abandon_episode(session, episode.state, UNANSWERED, completion.error)
    return completion.text is not None


@dataclass(frozen=True)
class TokenCounter:
    """The tokenizer and the context length of a model, if known."""

    tokenizer: Any = None
    context_length: int = 0

    @property
    def eos_text(self) -> str:
        """The end-of-sequence token as text, which ends a turn in plain-text prompts."""
        return "" if self.tokenizer is None else self.tokenizer.eos_token or ""

    def count(self, prompt: Prompt) -> int:
        return len(tokenize_prompt(prompt, self.tokenizer))

    def truncate(self, completion: Completion, limit: int) -> str:
        """Truncate a turn to its limit: a batch is generated with the largest limit of its episodes."""
        text = completion.text or ""
        if self.tokenizer is None or (completion.tokens or 0) <= limit:
            return text
        tokens = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return self.tokenizer.decode(tokens[:limit], skip_special_tokens=True)


def _token_counter(context: StepContext[EvalStepParams], model_spec: ModelTarget) -> TokenCounter:
    """The token counter of a model. An endpoint's tokenizer is not known, and it rejects prompts that are too
    long."""
    if model_spec.endpoint is not None:
        return TokenCounter()
    from transformers import AutoConfig

    from posttrain.runtime.models import peft_adapters
    from posttrain.runtime.models.model_loader import load_tokenizer

    folder = base = context.inputs[model_spec.role]
    while peft_adapters.is_adapter(base):
        base = peft_adapters.base_model_dir(base)
    config = AutoConfig.from_pretrained(base, trust_remote_code=False, local_files_only=True)
    return TokenCounter(load_tokenizer(folder), context_length(SimpleNamespace(config=config)))


def _episode_columns(session: EnvironmentSession, episode: _EpisodeContext) -> Row:
    unanswered = episode.state.end == UNANSWERED
    finish = episode.finish if unanswered else _FINISH_REASONS.get(str(episode.state.end), "stop")
    return {
        "completion": None if unanswered else episode_runner.model_text(episode.state),
        "tokens": episode.tokens,
        "finish": finish,
        TRANSCRIPT: episode_runner.transcript(episode.state),
        EPISODES: episode_runner.episode_record(session, episode.state),
    }
