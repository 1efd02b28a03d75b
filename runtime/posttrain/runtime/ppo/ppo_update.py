"""PPO itself: writes and judges a set of completions when one is due, and gives each step its loss."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from posttrain.runtime.ppo.actor_critic import backbone_of, hidden_states, unwrap_adapter
from posttrain.runtime.ppo.env_rollout import EpisodeSetup, TurnGenerator, rollout_episodes
from posttrain.runtime.ppo.gae import adapt_kl_coef
from posttrain.runtime.ppo.logprobs import token_logprobs
from posttrain.runtime.ppo.ppo_losses import policy_loss, value_loss
from posttrain.runtime.ppo.rollout_buffer import (
    AdvantageConfig,
    RolloutBuffer,
    ScoredRollouts,
    build_rollout_buffer,
)
from posttrain.runtime.ppo.rollout_generation import GeneratedCompletions, generate_completions, render_prompt
from posttrain.runtime.ppo.rollout_schedule import RolloutSchedule, derive_seed
from posttrain.runtime.rewards.engine.batch import EPISODES

Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class PpoSettings:
    """How the policy writes and learns, as the recipe's parameters say."""

    sampling: dict[str, Any]
    clip_low: float
    clip_high: float
    cliprange_value: float
    vf_coef: float
    entropy_coef: float
    kl_target: float | None
    kl_horizon: int


class PpoUpdater:
    """Holds the completions that are being learnt from, and the weight of the divergence."""

    def __init__(
        self,
        trainer: Any,
        turns: RolloutSchedule,
        ways: PpoSettings,
        terms: AdvantageConfig,
        rows: Sequence[Row],
        reference: Any,
        score: Callable[..., list[float | None]],
        stage: EpisodeSetup | None = None,
    ) -> None:
        self._trainer = trainer
        self._schedule = turns
        self._settings = ways
        self._advantage_config = terms
        self._rows = rows
        self._reference = None if reference is None else reference.to(trainer.args.device)
        self._score = score
        self._episode_setup = stage
        self._buffer: tuple[int, RolloutBuffer] | None = None
        # Figures of the step under way, each a sum over its micro-batches, and what is told once.
        self._step_metrics: dict[str, float] = {}
        self.metrics: dict[str, float] = {}
        self._tokens = 0
        self.kl_coef = terms.kl_coef

    def micro_batch_loss(self, model: Any, number: int) -> Any:
        """The part of a step's loss that a micro-batch has; the parts add up to the step's."""
        turn = self._schedule.micro_batch_at(number)
        if self._buffer is None or self._buffer[0] != turn.generation:
            self._buffer = (turn.generation, self._collect_rollouts(turn.generation))
        held = self._buffer[1]
        whole = self._advantage_config.all_reduce_sum(held.mask[turn.step_indices].sum()).clamp(min=1)
        part = held.select(turn.indices)
        self._tokens += int(part.attention.sum())
        logprobs, values, entropies = model(part.tokens, part.attention, part.completion_length)
        return self._weighted_loss(part, logprobs, values, entropies, part.mask / whole)

    def pop_metrics(self) -> dict[str, float]:
        """The figures since the last call."""
        found = {
            **self.metrics,
            **self._step_metrics,
            "num_tokens": float(self._tokens * self._schedule.processes),
        }
        self.metrics, self._step_metrics = {}, {}
        return found

    def _weighted_loss(
        self, part: RolloutBuffer, logprobs: Any, values: Any, entropies: Any, share: Any
    ) -> Any:
        """The loss of a micro-batch, where `share` is each token's share of the whole step."""
        ways = self._settings
        policy, cut = policy_loss(logprobs, part.logprobs, part.advantages, ways.clip_low, ways.clip_high)
        value, held = value_loss(values, part.values, part.returns, ways.cliprange_value)
        sums = {
            "loss/policy": (policy * share).sum(),
            "loss/values": (value * share).sum(),
            "entropy/now": (entropies * share).sum(),
            "clip_ratio": (cut * share).sum(),
            "values/clip_ratio": (held * share).sum(),
            "kl/moved": ((part.logprobs - logprobs) * share).sum(),
        }
        processes = self._schedule.processes  # of which the figures are the mean
        for name, one in sums.items():
            self._step_metrics[name] = self._step_metrics.get(name, 0.0) + float(one.detach()) * processes
        loss = sums["loss/policy"] + ways.vf_coef * sums["loss/values"]
        return loss if ways.entropy_coef == 0 else loss - ways.entropy_coef * sums["entropy/now"]

    def _collect_rollouts(self, generation: int) -> RolloutBuffer:
        pair = self._trainer.pair
        training = pair.training
        pair.eval()
        with self._trainer.accelerator.autocast():
            judged = self._score_completions(generation, *self._generate_completions(generation))
        pair.train(training)
        made, figures = build_rollout_buffer(judged, replace(self._advantage_config, beta=self.kl_coef))
        self.metrics |= figures
        if self._reference is not None:
            self.metrics["beta"] = self.kl_coef
            self._adapt_kl_coef(judged, figures["kl_of_completion"])
        return made

    def _adapt_kl_coef(self, judged: ScoredRollouts, found: float) -> None:
        """Move the weight of the divergence towards the one that keeps it where it is wanted."""
        if self._settings.kl_target is None:
            return
        rows = judged.values.new_tensor([found * len(judged.scores), float(len(judged.scores))])
        diverged, count = (float(one) for one in self._advantage_config.all_reduce_sum(rows))
        self.kl_coef = adapt_kl_coef(
            self.kl_coef, diverged / count, self._settings.kl_target, int(count), self._settings.kl_horizon
        )

    def _generate_completions(self, generation: int) -> tuple[GeneratedCompletions, dict[str, Any]]:
        """What the policy has written, and what rewards read of it beside the rows."""
        turns, tokenizer = self._schedule, self._trainer.processing_class
        rows = [self._rows[row] for row in turns.prompt_rows(generation)]
        seed = derive_seed(turns.seed, "completions", generation, turns.rank)
        policy, device = self._trainer.pair.policy, self._trainer.args.device
        if self._episode_setup is not None:
            by = TurnGenerator(policy, tokenizer, self._settings.sampling, seed, device)
            written, outcomes = rollout_episodes(self._episode_setup, by, rows, device)
            return written, {EPISODES: outcomes}
        asked = [render_prompt(row["prompt"], tokenizer) for row in rows]
        return generate_completions(policy, tokenizer, asked, self._settings.sampling, seed, device), {}

    def _score_completions(
        self, generation: int, written: GeneratedCompletions, beside: Mapping[str, Any]
    ) -> ScoredRollouts:
        rows = [self._rows[row] for row in self._schedule.prompt_rows(generation)]
        columns = {name: [row[name] for row in rows] for name in rows[0]} | dict(beside)
        texts = written.texts(self._trainer.processing_class)
        scores = self._score(columns.pop("prompt"), texts, completion_ids=written.completion_ids(), **columns)
        logprobs, values, entropies = self._forward_in_micro_batches(written, self._trainer.pair)
        reference = (
            None
            if self._reference is None
            else self._forward_in_micro_batches(written, self._compute_ref_logprobs)[0]
        )
        return ScoredRollouts(
            generated=written,
            logprobs=logprobs,
            values=values,
            entropies=entropies,
            ref_logprobs=reference,
            scores=scores,
        )

    def _forward_in_micro_batches(
        self, written: GeneratedCompletions, model: Callable[..., Sequence[Any]]
    ) -> list[Any]:
        """What a model finds in all completions, a micro-batch at a time."""
        import torch

        size = self._schedule.micro_batch_size
        with torch.no_grad():
            parts = [
                model(tokens, attention, written.completion_length)
                for tokens, attention in zip(
                    written.tokens.split(size), written.attention.split(size), strict=True
                )
            ]
        return [torch.cat(found) for found in zip(*parts, strict=True)]

    def _compute_ref_logprobs(self, tokens: Any, attention: Any, count: int) -> Sequence[Any]:
        """What the reference finds."""
        found = hidden_states(backbone_of(self._reference), tokens, attention, count)
        wanted, writer = tokens[:, -count:], unwrap_adapter(self._reference)
        return token_logprobs(found, wanted, writer, self._settings.sampling["temperature"])
