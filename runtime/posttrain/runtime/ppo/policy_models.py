"""The models of a stage: the policy with its adapter, the values beside it, and the frozen reference."""

from typing import Any

from posttrain.runtime.models.model_loader import StartingModel
from posttrain.runtime.ppo.actor_critic import frozen_copy
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.training.reference_model import load_named_reference


def build_policy(start: StartingModel, seed: int) -> Any:
    """The model that learns, with its adapter on it."""
    if start.adapter_config is None:
        return start.model
    from peft import get_peft_model, prepare_model_for_kbit_training
    from transformers import set_seed

    model = start.model
    if getattr(model, "is_quantized", False):
        model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    set_seed(seed)  # half of a new adapter is drawn
    return get_peft_model(model, start.adapter_config)


def build_reference(context: StepContext, policy: Any, kl_coef: float) -> Any:
    """The reference: the model that the stage names, else the policy as it begins.

    With a KL coefficient of 0 there is none.
    """
    if kl_coef == 0:
        return None
    named = load_named_reference(context)
    return frozen_copy(policy) if named is None else named.eval().requires_grad_(False)
