"""Actor and critic as one module: the policy that generates, and the model that predicts values.

Values come from a copy of the policy's layers with a head of their own (`separate`), or from a head on
the last hidden states of the policy (`shared`). A copy starts with the weights of the policy, and shares
with it those that neither of them trains: under an adapter, the base weights are in memory once.
"""

from copy import deepcopy
from inspect import signature
from typing import Any, Literal

from posttrain.runtime.ppo.logprobs import token_logprobs


def copy_sharing_frozen(model: Any) -> Any:
    """A copy of a module that has the trained weights for itself and the frozen ones in common."""
    return deepcopy(model, {id(weight): weight for weight in model.parameters() if not weight.requires_grad})


def frozen_copy(model: Any) -> Any:
    """A copy that is never trained: the reference of the KL divergence."""
    copy = copy_sharing_frozen(model).eval()
    return copy.requires_grad_(False)


def unwrap_adapter(model: Any) -> Any:
    """The model with its head, without what wraps it for an adapter."""
    return model.get_base_model() if hasattr(model, "peft_config") else model


def backbone_of(model: Any) -> Any:
    """The layers below the head, an adapter's among them."""
    base = unwrap_adapter(model)
    layers = base.base_model
    assert layers is not base, f"{type(base).__name__} has no layers apart from its head"
    return layers


def hidden_states(layers: Any, tokens: Any, attention: Any, count: int) -> Any:
    """The states before each of the last `count` tokens; rows may be padded on either side."""
    arguments: dict[str, Any] = {"input_ids": tokens, "attention_mask": attention, "use_cache": False}
    if "position_ids" in signature(layers.forward).parameters:
        arguments["position_ids"] = (attention.cumsum(dim=1) - 1).clamp(min=0)
    return layers(**arguments).last_hidden_state[:, -count - 1 : -1]


def build_actor_critic(
    policy: Any, value_model: Literal["separate", "shared"], temperature: float, entropy: bool
) -> Any:
    """The module that is trained; its class needs torch, so it is made here.

    `entropy` is whether a gradient goes through the entropy, or it is only reported.
    """
    import torch
    from torch import nn

    class ActorCritic(nn.Module):
        # The trainer would read it from the policy, and refuse the module around a quantized one.
        is_quantized = False

        def __init__(self) -> None:
            super().__init__()
            self.policy = policy
            self.layers = copy_sharing_frozen(backbone_of(policy)) if value_model == "separate" else None
            self.head = _value_head(policy)

        def __getattr__(self, name: str) -> Any:
            """What a trainer asks of a model, the policy answers: its configuration, generation, saving."""
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(super().__getattr__("policy"), name)

        def forward(self, tokens: Any, attention: Any, count: int) -> Any:
            """Log-probabilities, values and entropies of the last `count` tokens."""
            found = hidden_states(backbone_of(self.policy), tokens, attention, count)
            targets, base = tokens[:, -count:], unwrap_adapter(self.policy)
            logprobs, entropies = token_logprobs(found, targets, base, temperature, entropy)
            states = found if self.layers is None else hidden_states(self.layers, tokens, attention, count)
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
            """What is trained of the policy, and of the values."""
            own = [*self.head.parameters(), *(() if self.layers is None else self.layers.parameters())]
            policy = [weight for weight in self.policy.parameters() if weight.requires_grad]
            return policy, [weight for weight in own if weight.requires_grad]

        def value_state_dict(self) -> dict[str, Any]:
            """The trained weights of the values, by name, for a checkpoint."""
            return {
                name: weight
                for name, weight in self.named_parameters()
                if weight.requires_grad and not name.startswith("policy.")
            }

    return ActorCritic()


def _value_head(policy: Any) -> Any:
    """One number for a state. It begins at zero everywhere, so that no value is predicted by chance."""
    from torch import nn

    config = policy.config.get_text_config()
    head = nn.Linear(config.hidden_size, 1)
    for weight in head.parameters():
        nn.init.zeros_(weight)
    return head
