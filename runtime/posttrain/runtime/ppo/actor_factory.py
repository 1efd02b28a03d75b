"""Builds the PPO trainer of a stage from its parameters."""

from collections.abc import Callable
from typing import Any

from posttrain.runtime.environments.environment_factory import open_environment
from posttrain.runtime.ppo.actor_critic import build_actor_critic
from posttrain.runtime.ppo.env_rollout import EpisodeSetup
from posttrain.runtime.ppo.policy_models import build_policy, build_reference
from posttrain.runtime.ppo.ppo_trainer import TrainerSetup, create_trainer
from posttrain.runtime.ppo.ppo_update import PpoSettings, PpoUpdater
from posttrain.runtime.ppo.rollout_buffer import AdvantageConfig
from posttrain.runtime.ppo.rollout_schedule import RolloutSchedule
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.training.step_arithmetic import accumulation_steps
from posttrain.runtime.training.training_loop import TrainingLoop
from posttrain.spec.step_params.train_params import TrainStepParams


def build_ppo_trainer(
    params: Any,
    loop: TrainingLoop,
    data: Any,
    score: Callable[..., list[float | None]],
    critic_learning_rate: float,
) -> Any:
    """Build the trainer for the training loop; `params` are the parameters of the method."""
    from transformers import TrainingArguments

    seed = loop.context.params.seed
    policy = build_policy(loop.starting_model, seed)
    reference = build_reference(loop.context, policy, params.kl_coef)
    rows = data.to_list()
    episode_setup = _episode_setup(loop.context)

    def make_updater(trainer: Any) -> PpoUpdater:
        return PpoUpdater(
            trainer,
            _rollout_schedule(params, trainer, seed, len(rows)),
            _ppo_settings(params),
            _advantage_config(params, trainer),
            rows,
            reference,
            score,
            episode_setup,
        )

    batch = {
        "per_device_train_batch_size": params.micro_batch_size or params.batch_size,
        "gradient_accumulation_steps": accumulation_steps(params.batch_size, params.micro_batch_size),
    }
    return create_trainer(
        TrainerSetup(
            actor_critic=build_actor_critic(
                policy, params.value_model, params.temperature, params.entropy_coef > 0
            ),
            tokenizer=loop.starting_model.tokenizer,
            rows=data,
            arguments=TrainingArguments(**loop.arguments(batch)),
            critic_learning_rate=critic_learning_rate,
            make_updater=make_updater,
        )
    )


def _episode_setup(context: StepContext[TrainStepParams]) -> EpisodeSetup | None:
    return (
        None
        if context.params.environment is None
        else EpisodeSetup(world=open_environment(context), seed=context.params.seed)
    )


def _rollout_schedule(params: Any, trainer: Any, seed: int, rows: int) -> RolloutSchedule:
    return RolloutSchedule(
        seed=seed,
        num_prompts=rows,
        micro_batch_size=trainer.args.per_device_train_batch_size,
        accumulation_steps=trainer.args.gradient_accumulation_steps,
        num_mini_batches=params.num_mini_batches,
        num_ppo_epochs=params.num_ppo_epochs,
        rank=trainer.accelerator.process_index,
        processes=trainer.accelerator.num_processes,
    )


def _ppo_settings(params: Any) -> PpoSettings:
    return PpoSettings(
        sampling={
            "temperature": params.temperature,
            "top_p": params.top_p,
            "max_new_tokens": params.max_completion_length,
        },
        cliprange=params.cliprange,
        cliprange_high=params.cliprange if params.cliprange_high is None else params.cliprange_high,
        cliprange_value=params.cliprange_value,
        vf_coef=params.vf_coef,
        entropy_coef=params.entropy_coef,
        kl_target=params.kl_target,
        kl_horizon=params.kl_horizon,
    )


def _advantage_config(params: Any, trainer: Any) -> AdvantageConfig:
    return AdvantageConfig(
        kl_coef=params.kl_coef,
        kl_estimator=params.kl_estimator,
        gamma=params.gamma,
        lam=params.lam,
        whiten_advantages=params.whiten_advantages,
        mask_truncated_completions=params.mask_truncated_completions,
        missing_eos_penalty=params.missing_eos_penalty,
        all_reduce_sum=lambda part: trainer.accelerator.reduce(part, reduction="sum"),
    )
