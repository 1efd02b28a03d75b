"""What a checkpoint holds beside the policy: the values, and what the run has adapted.

value.safetensors   the trained weights of the values: their layers, or the adapter on them, and their head
ppo.json            the weight of the divergence

The product is a policy like any other method's; the values belong to this stage's reward, and stay behind.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io

_VALUE_WEIGHTS_FILE = "value.safetensors"
_STATE_FILE = "ppo.json"
_POLICY_PREFIX = "policy."


def save_checkpoint(
    folder: Path, pair: Any, tokenizer: Any, state: Mapping[str, Any] | None, beta: float
) -> None:
    """Write a checkpoint's models; `state` has the weights where they are gathered from several processes."""
    from safetensors.torch import save_file

    whole = pair.state_dict() if state is None else state
    policy = {
        name.removeprefix(_POLICY_PREFIX): one
        for name, one in whole.items()
        if name.startswith(_POLICY_PREFIX)
    }
    pair.policy.save_pretrained(folder, state_dict=policy, safe_serialization=True)
    tokenizer.save_pretrained(folder)
    values = {name: whole[name].detach().contiguous() for name in pair.value_state()}
    save_file(values, str(folder / _VALUE_WEIGHTS_FILE))
    atomic_io.write_json(folder / _STATE_FILE, {"beta": beta})


def load_value_weights(folder: Path, pair: Any) -> None:
    import torch
    from safetensors.torch import load_file

    kept = load_file(str(folder / _VALUE_WEIGHTS_FILE))
    with torch.no_grad():
        for name, weight in pair.value_state().items():
            weight.copy_(kept[name])


def load_kl_coef(folder: Path) -> float:
    return atomic_io.read_json(folder / _STATE_FILE)["beta"]
