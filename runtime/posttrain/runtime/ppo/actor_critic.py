"""Actor and critic as one module: the policy that generates, and the model that predicts values.

The value model is a copy of the policy's layers with a value head (`separate`), or a value head on the last
hidden states of the policy (`shared`). The copy starts with the weights of the policy and shares its frozen
weights: with an adapter, the base weights are in memory only once.
"""

from copy import deepcopy
from inspect import signature
from typing import Any, Literal

from posttrain.runtime.ppo.logprobs import token_logprobs


def copy_sharing_frozen(model: Any) -> Any:
    """Copy a module. The copy has its own trained weights and shares the frozen ones."""
    return deepcopy(model, {id(weight): weight for weight in model.parameters() if not weight.requires_grad})


def frozen_copy(model: Any) -> Any:
    """Return a copy that is never trained: the reference model of the KL divergence."""
    copy = copy_sharing_frozen(model).eval()
    return copy.requires_grad_(False)


def unwrap_adapter(model: Any) -> Any:
    """Return the model with its head, without the PEFT wrapper."""
    return model.get_base_model() if hasattr(model, "peft_config") else model


def backbone_of(model: Any) -> Any:
    """Return the layers below the head, including those of an adapter."""
    base = unwrap_adapter(model)
    layers = base.base_model
    assert layers is not base, f"{type(base).__name__} has no separate base model below its head"
    return layers


def hidden_states(layers: Any, tokens: Any, attention: Any, count: int) -> Any:
    """Return the hidden states before each of the last `count` tokens; rows may be padded on either side."""
    arguments: dict[str, Any] = {"input_ids": tokens, "attention_mask": attention, "use_cache": False}
    if "position_ids" in signature(layers.forward).parameters:
        arguments["position_ids"] = (attention.cumsum(dim=1) - 1).clamp(min=0)
    return layers(**arguments).last_hidden_state[:, -count - 1 : -1]


def build_actor_critic(
    policy: Any, value_model: Literal["separate", "shared"], temperature: float, entropy: bool
) -> Any:
    """Build the trained module. Its class is defined here because its base class imports torch.

    With `entropy`, the gradient includes the entropy; otherwise the entropy is only reported.
    """
    import torch
    from torch import nn

    class ActorCritic(nn.Module):
        # Otherwise the trainer reads it from the policy, and rejects a module around a quantized model.
        is_quantized = False

        def __init__(self) -> None:
            super().__init__()
            self.policy = policy
            self.layers = copy_sharing_frozen(backbone_of(policy)) if value_model == "separate" else None
            self.head = _value_head(policy)

        def __getattr__(self, name: str) -> Any:
            """Delegate everything else that a trainer needs to the policy: config, generation, saving."""
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(super().__getattr__("policy"), name)

        def forward(self, tokens: Any, attention: Any, count: int) -> Any:
            """Return log-probabilities, values and entropies of the last `count` tokens."""
            hidden = hidden_states(backbone_of(self.policy), tokens, attention, count)
            targets, base = tokens[:, -count:], unwrap_adapter(self.policy)
            logprobs, entropies = token_logprobs(hidden, targets, base, temperature, entropy)
            states = hidden if self.layers is None else hidden_states(self.layers, tokens, attention, count)
            with torch.autocast(states.device.type, enabled=False):
                values = nn.functional.linear(
                    states.float(), self.head.weight.float(), self.head.bias.float()
                )
            return logprobs, values.squeeze(-1), entropies

        def gradient_checkpointing_enable(self, **how: Any) -> None:
            self.policy.gradient_checkpointing_enable(**how)
            for module in () if self.layers is None else (self.layers,):
                module.gradient_checkpointing_enable(**how)

        def trainable_parameters(self) -> tuple[list[Any], list[Any]]:
            """Return the trained weights of the policy, and those of the value model."""
            own = [*self.head.parameters(), *(() if self.layers is None else self.layers.parameters())]
            policy = [weight for weight in self.policy.parameters() if weight.requires_grad]
            return policy, [weight for weight in own if weight.requires_grad]

        def value_state_dict(self) -> dict[str, Any]:
            """Return the trained weights of the value model by name, for a checkpoint."""
            return {
                name: weight
                for name, weight in self.named_parameters()
                if weight.requires_grad and not name.startswith("policy.")
            }

    return ActorCritic()


def _value_head(policy: Any) -> Any:
    """Return a linear head with one output. It starts at zero, so that initial values are not random."""
    from torch import nn

    config = policy.config.get_text_config()
    head = nn.Linear(config.hidden_size, 1)
    for weight in head.parameters():
        nn.init.zeros_(weight)
    return head
