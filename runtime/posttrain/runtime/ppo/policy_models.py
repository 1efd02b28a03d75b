"""Builds the models of a PPO stage: the policy with its adapter, and the frozen reference model."""

from typing import Any

from posttrain.runtime.models.model_loader import StartingModel
from posttrain.runtime.ppo.actor_critic import frozen_copy
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.training.reference_model import load_named_reference


def build_policy(start: StartingModel, seed: int) -> Any:
    """Return the trained model, with its adapter if it has one."""
    if start.adapter_config is None:
        return start.model
    from peft import get_peft_model, prepare_model_for_kbit_training
    from transformers import set_seed

    model = start.model
    if getattr(model, "is_quantized", False):
        model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    set_seed(seed)  # one of the two LoRA matrices is initialized at random
    return get_peft_model(model, start.adapter_config)


def build_reference(context: StepContext, policy: Any, kl_coef: float) -> Any:
    """Return the reference model: the one that the stage names, else a copy of the initial policy.

    Returns None if the KL coefficient is 0.
    """
    if kl_coef == 0:
        return None
    named = load_named_reference(context)
    return frozen_copy(policy) if named is None else named.eval().requires_grad_(False)
