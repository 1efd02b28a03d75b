"""Saves and loads PPO checkpoints: the policy, the value model and the KL coefficient.

value.safetensors   the trained weights of the value model: its layers, or the adapter on them, and its head
ppo.json            the KL coefficient, which the run may have adapted

The product contains only the policy. The value model depends on the reward of this stage and is not part of
it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io

_VALUE_WEIGHTS_FILE = "value.safetensors"
_STATE_FILE = "ppo.json"
_POLICY_PREFIX = "policy."


def save_checkpoint(
    folder: Path, actor_critic: Any, tokenizer: Any, state: Mapping[str, Any] | None, kl_coef: float
) -> None:
    """Save the models of a checkpoint; `state` holds the weights if several processes gathered them."""
    from safetensors.torch import save_file

    whole = actor_critic.state_dict() if state is None else state
    policy = {
        name.removeprefix(_POLICY_PREFIX): one
        for name, one in whole.items()
        if name.startswith(_POLICY_PREFIX)
    }
    actor_critic.policy.save_pretrained(folder, state_dict=policy, safe_serialization=True)
    tokenizer.save_pretrained(folder)
    values = {name: whole[name].detach().contiguous() for name in actor_critic.value_state_dict()}
    save_file(values, str(folder / _VALUE_WEIGHTS_FILE))
    atomic_io.write_json(folder / _STATE_FILE, {"kl_coef": kl_coef})


def load_value_weights(folder: Path, actor_critic: Any) -> None:
    import torch
    from safetensors.torch import load_file

    weights = load_file(str(folder / _VALUE_WEIGHTS_FILE))
    with torch.no_grad():
        for name, weight in actor_critic.value_state_dict().items():
            weight.copy_(weights[name])


def load_kl_coef(folder: Path) -> float:
    return atomic_io.read_json(folder / _STATE_FILE)["kl_coef"]
