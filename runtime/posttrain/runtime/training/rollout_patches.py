"""Applies the patches of TRL's GRPO and RLOO trainers: prompts, episodes, and generation with vLLM."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from posttrain.runtime.chat_prompts import TEMPLATE_COLUMNS, row_prompt
from posttrain.runtime.environments.environment_factory import open_environment
from posttrain.runtime.environments.episode_tokens import EpisodeBatch, run_token_episodes
from posttrain.runtime.models.model_loader import StartingModel
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.trl_compat.grpo_episodes import patch_grpo_trainer
from posttrain.runtime.trl_compat.rloo_episodes import patch_rloo_trainer
from posttrain.runtime.trl_compat.rollout_decoding import patch_decoding
from posttrain.runtime.trl_compat.rollout_positions import patch_positions
from posttrain.runtime.trl_compat.rollout_prompts import patch_prompt_tokenization, patch_row_tools
from posttrain.runtime.trl_compat.turn_generation import TrainerGenerator
from posttrain.runtime.trl_compat.vllm_bitsandbytes import disable_vllm_bitsandbytes
from posttrain.runtime.trl_compat.vllm_random_state import seed_generations
from posttrain.runtime.trl_compat.vllm_stop_tokens import pass_stop_tokens
from posttrain.runtime.trl_compat.vllm_tokenizer import save_tokenizer_beside_weights
from posttrain.runtime.trl_compat.vllm_uneven_prompts import pad_uneven_prompts
from posttrain.runtime.trl_compat.vllm_weight_sync import patch_weight_sync
from posttrain.spec.plan import Launch
from posttrain.spec.step_params.train_params import TrainStepParams


def patch_prompts(context: StepContext[TrainStepParams], trainer: Any) -> None:
    """Patch how the trainer gets its prompts, and their positions; or episodes, in an environment."""
    patch_prompt_tokenization(trainer)
    if any(name in trainer.train_dataset.column_names for name in TEMPLATE_COLUMNS):
        patch_row_tools(trainer)
    patch_decoding(trainer)
    patch_positions(trainer)
    _patch_episodes(context, trainer)


def patch_vllm_start(start: StartingModel, launch: Launch, scratch: Path) -> None:
    """Prepare what vLLM is started with, before the trainer is built."""
    if launch.rollouts.get("mode") != "server":
        disable_vllm_bitsandbytes()
    save_tokenizer_beside_weights(start.model, start.tokenizer, scratch)


def patch_vllm_generation(trainer: Any) -> None:
    """Patch the trainer's vLLM engine, if it has one."""
    engine = getattr(trainer, "vllm_generation", None)
    if engine is None:
        return
    seed_generations(trainer, engine)
    pad_uneven_prompts(engine)
    pass_stop_tokens(engine, trainer.eos_token_ids)
    patch_weight_sync(engine)


def _patch_episodes(context: StepContext[TrainStepParams], trainer: Any) -> None:
    if context.params.environment is None:
        return
    session, generator = open_environment(context), TrainerGenerator(trainer)

    def play(rows: Sequence[Any]) -> EpisodeBatch:
        return run_token_episodes(
            session, context.params.seed, rows, [row_prompt(row) for row in rows], generator
        )

    patch = patch_grpo_trainer if hasattr(trainer, "rollout_func") else patch_rloo_trainer
    patch(trainer, play)
