"""The PPO algorithm: generates and scores rollouts, and computes the loss of each micro-batch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from posttrain.runtime.chat_prompts import row_prompt
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
from posttrain.runtime.ppo.rollout_generation import GeneratedCompletions, generate_completions
from posttrain.runtime.ppo.rollout_schedule import RolloutSchedule, derive_seed
from posttrain.runtime.rewards.engine.batch import EPISODES

Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class PpoSettings:
    """The recipe's parameters for generation and the loss."""

    sampling: dict[str, Any]
    cliprange: float
    cliprange_high: float
    cliprange_value: float
    vf_coef: float
    entropy_coef: float
    kl_target: float | None
    kl_horizon: int


class PpoUpdater:
    """Holds the current rollout and the KL coefficient, and computes the loss."""

    def __init__(
        self,
        trainer: Any,
        schedule: RolloutSchedule,
        settings: PpoSettings,
        advantage_config: AdvantageConfig,
        rows: Sequence[Row],
        reference: Any,
        score: Callable[..., list[float | None]],
        episode_setup: EpisodeSetup | None = None,
    ) -> None:
        self._trainer = trainer
        self._schedule = schedule
        self._settings = settings
        self._advantage_config = advantage_config
        self._rows = rows
        self._reference = None if reference is None else reference.to(trainer.args.device)
        self._score = score
        self._episode_setup = episode_setup
        self._buffer: tuple[int, RolloutBuffer] | None = None
        # Metrics of the current step (sums over its micro-batches), and metrics of the rollout.
        self._step_metrics: dict[str, float] = {}
        self.metrics: dict[str, float] = {}
        self._tokens = 0
        self.kl_coef = advantage_config.kl_coef

    def micro_batch_loss(self, model: Any, number: int) -> Any:
        """Return a micro-batch's share of the loss; the shares of an optimizer step add up to its loss."""
        micro_batch = self._schedule.micro_batch_at(number)
        if self._buffer is None or self._buffer[0] != micro_batch.generation:
            self._buffer = (micro_batch.generation, self._collect_rollouts(micro_batch.generation))
        buffer = self._buffer[1]
        whole = self._advantage_config.all_reduce_sum(buffer.mask[micro_batch.step_indices].sum()).clamp(
            min=1
        )
        part = buffer.select(micro_batch.indices)
        self._tokens += int(part.attention.sum())
        logprobs, values, entropies = model(part.tokens, part.attention, part.completion_length)
        return self._weighted_loss(part, logprobs, values, entropies, part.mask / whole)

    def pop_metrics(self) -> dict[str, float]:
        """Return the metrics since the last call."""
        metrics = {
            **self.metrics,
            **self._step_metrics,
            "num_tokens": float(self._tokens * self._schedule.processes),
        }
        self.metrics, self._step_metrics = {}, {}
        return metrics

    def _weighted_loss(
        self, part: RolloutBuffer, logprobs: Any, values: Any, entropies: Any, share: Any
    ) -> Any:
        """Return the loss of a micro-batch; `share` is the weight of each token in the optimizer step."""
        settings = self._settings
        policy, clipped = policy_loss(
            logprobs, part.logprobs, part.advantages, settings.cliprange, settings.cliprange_high
        )
        value, value_clipped = value_loss(values, part.values, part.returns, settings.cliprange_value)
        sums = {
            "loss/policy": (policy * share).sum(),
            "loss/value": (value * share).sum(),
            "policy/entropy": (entropies * share).sum(),
            "clip_ratio": (clipped * share).sum(),
            "values/clip_ratio": (value_clipped * share).sum(),
            "policy/approx_kl": ((part.logprobs - logprobs) * share).sum(),
        }
        processes = self._schedule.processes  # the metrics are averaged over the processes later
        for name, one in sums.items():
            self._step_metrics[name] = self._step_metrics.get(name, 0.0) + float(one.detach()) * processes
        loss = sums["loss/policy"] + settings.vf_coef * sums["loss/value"]
        return loss if settings.entropy_coef == 0 else loss - settings.entropy_coef * sums["policy/entropy"]

    def _collect_rollouts(self, generation: int) -> RolloutBuffer:
        actor_critic = self._trainer.actor_critic
        training = actor_critic.training
        actor_critic.eval()
        with self._trainer.accelerator.autocast():
            scored = self._score_completions(generation, *self._generate_completions(generation))
        actor_critic.train(training)
        buffer, metrics = build_rollout_buffer(scored, replace(self._advantage_config, kl_coef=self.kl_coef))
        self.metrics |= metrics
        if self._reference is not None:
            self.metrics["kl_coef"] = self.kl_coef
            self._adapt_kl_coef(scored, metrics["kl_per_completion"])
        return buffer

    def _adapt_kl_coef(self, scored: ScoredRollouts, kl: float) -> None:
        """Adapt the KL coefficient to keep the KL divergence near its target, if there is one."""
        if self._settings.kl_target is None:
            return
        rows = scored.values.new_tensor([kl * len(scored.scores), float(len(scored.scores))])
        total, count = (float(one) for one in self._advantage_config.all_reduce_sum(rows))
        self.kl_coef = adapt_kl_coef(
            self.kl_coef, total / count, self._settings.kl_target, int(count), self._settings.kl_horizon
        )

    def _generate_completions(self, generation: int) -> tuple[GeneratedCompletions, dict[str, Any]]:
        """Generate completions or episodes. Returns them, and further columns for the rewards."""
        schedule, tokenizer = self._schedule, self._trainer.processing_class
        rows = [self._rows[row] for row in schedule.prompt_rows(generation)]
        seed = derive_seed(schedule.seed, "completions", generation, schedule.rank)
        policy, device = self._trainer.actor_critic.policy, self._trainer.args.device
        if self._episode_setup is not None:
            generator = TurnGenerator(policy, tokenizer, self._settings.sampling, seed, device)
            generated, outcomes = rollout_episodes(self._episode_setup, generator, rows, device)
            return generated, {EPISODES: outcomes}
        prompts = [row_prompt(row) for row in rows]
        return generate_completions(policy, tokenizer, prompts, self._settings.sampling, seed, device), {}

    def _score_completions(
        self, generation: int, generated: GeneratedCompletions, episodes: Mapping[str, Any]
    ) -> ScoredRollouts:
        rows = [self._rows[row] for row in self._schedule.prompt_rows(generation)]
        columns = {name: [row[name] for row in rows] for name in rows[0]} | dict(episodes)
        texts = generated.texts(self._trainer.processing_class)
        scores = self._score(
            columns.pop("prompt"), texts, completion_ids=generated.completion_ids(), **columns
        )
        logprobs, values, entropies = self._forward_in_micro_batches(generated, self._trainer.actor_critic)
        reference = (
            None
            if self._reference is None
            else self._forward_in_micro_batches(generated, self._compute_ref_logprobs)[0]
        )
        return ScoredRollouts(
            generated=generated,
            logprobs=logprobs,
            values=values,
            entropies=entropies,
            ref_logprobs=reference,
            scores=scores,
        )

    def _forward_in_micro_batches(
        self, generated: GeneratedCompletions, model: Callable[..., Sequence[Any]]
    ) -> list[Any]:
        """Return the outputs of a model for all completions, computed in micro-batches."""
        import torch

        size = self._schedule.micro_batch_size
        with torch.no_grad():
            parts = [
                model(tokens, attention, generated.completion_length)
                for tokens, attention in zip(
                    generated.tokens.split(size), generated.attention.split(size), strict=True
                )
            ]
        return [torch.cat(outputs) for outputs in zip(*parts, strict=True)]

    def _compute_ref_logprobs(self, tokens: Any, attention: Any, count: int) -> Sequence[Any]:
        """Return log-probabilities and entropies of the reference model."""
        hidden = hidden_states(backbone_of(self._reference), tokens, attention, count)
        targets, base = tokens[:, -count:], unwrap_adapter(self._reference)
        return token_logprobs(hidden, targets, base, self._settings.sampling["temperature"])
