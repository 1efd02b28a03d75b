"""The models of a stage: the policy with its adapter, the values beside it, and the frozen reference."""

from typing import Any

from posttrain.runtime.context import Context
from posttrain.runtime.models.load import Start
from posttrain.runtime.ppo.pair import frozen
from posttrain.runtime.training.reference import named_reference


def policy_of(start: Start, seed: int) -> Any:
    """The model that learns, with its adapter on it."""
    if start.adapter is None:
        return start.model
    from peft import get_peft_model, prepare_model_for_kbit_training
    from transformers import set_seed

    model = start.model
    if getattr(model, "is_quantized", False):
        model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    set_seed(seed)  # half of a new adapter is drawn
    return get_peft_model(model, start.adapter)


def reference_of(context: Context, policy: Any, beta: float) -> Any:
    """What the policy is held to: the model that the stage names, else the policy as it begins.

    Without a weight on the divergence there is none.
    """
    if beta == 0:
        return None
    named = named_reference(context)
    return frozen(policy) if named is None else named.eval().requires_grad_(False)
