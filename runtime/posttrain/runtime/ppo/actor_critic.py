"""The two models that are trained together: the policy, which writes, and the one that foretells.

Values come from a copy of the policy's layers with a head of their own (`own`), or from a head on the
policy's own last states (`shared`). A copy starts where the policy starts, and shares with it what
neither of them trains: under an adapter, the weights that it stands on are there once.
"""

from copy import deepcopy
from inspect import signature
from typing import Any, Literal

from posttrain.runtime.ppo.logprobs import token_logprobs


def copy_sharing_frozen(model: Any) -> Any:
    """A copy of a module that has the trained weights for itself and the frozen ones in common."""
    return deepcopy(model, {id(weight): weight for weight in model.parameters() if not weight.requires_grad})


def frozen_copy(model: Any) -> Any:
    """A copy that stays as it is: what the policy is held to."""
    copy = copy_sharing_frozen(model).eval()
    return copy.requires_grad_(False)


def unwrap_adapter(model: Any) -> Any:
    """The model with its head, without what wraps it for an adapter."""
    return model.get_base_model() if hasattr(model, "peft_config") else model


def backbone_of(model: Any) -> Any:
    """The layers below the head, an adapter's among them."""
    writer = unwrap_adapter(model)
    layers = writer.base_model
    assert layers is not writer, f"{type(writer).__name__} has no layers apart from its head"
    return layers


def hidden_states(layers: Any, tokens: Any, attention: Any, count: int) -> Any:
    """The states before each of the last `count` tokens; rows are padded on the left, or their end is."""
    given: dict[str, Any] = {"input_ids": tokens, "attention_mask": attention, "use_cache": False}
    if "position_ids" in signature(layers.forward).parameters:
        given["position_ids"] = (attention.cumsum(dim=1) - 1).clamp(min=0)
    return layers(**given).last_hidden_state[:, -count - 1 : -1]


def build_actor_critic(
    policy: Any, values: Literal["own", "shared"], temperature: float, entropy: bool
) -> Any:
    """The module that is trained; its class needs torch, so it is made here.

    `entropy` is whether anything is learnt from the entropy, and not only told.
    """
    import torch
    from torch import nn

    class Pair(nn.Module):
        # Of the policy these would be told to the trainer, which would then refuse this module around it.
        is_quantized = False

        def __init__(self) -> None:
            super().__init__()
            self.policy = policy
            self.layers = copy_sharing_frozen(backbone_of(policy)) if values == "own" else None
            self.head = _value_head(policy)

        def __getattr__(self, name: str) -> Any:
            """What a trainer asks of a model, the policy answers: its configuration, writing, saving."""
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(super().__getattr__("policy"), name)

        def forward(self, tokens: Any, attention: Any, count: int) -> Any:
            """Log-probabilities, values and entropies of the last `count` tokens."""
            found = hidden_states(backbone_of(self.policy), tokens, attention, count)
            wanted, writer = tokens[:, -count:], unwrap_adapter(self.policy)
            logprobs, entropies = token_logprobs(found, wanted, writer, temperature, entropy)
            seen = found if self.layers is None else hidden_states(self.layers, tokens, attention, count)
            with torch.autocast(seen.device.type, enabled=False):
                foretold = nn.functional.linear(
                    seen.float(), self.head.weight.float(), self.head.bias.float()
                )
            return logprobs, foretold.squeeze(-1), entropies

        def gradient_checkpointing_enable(self, **how: Any) -> None:
            self.policy.gradient_checkpointing_enable(**how)
            for module in () if self.layers is None else (self.layers,):
                module.gradient_checkpointing_enable(**how)

        def parts(self) -> tuple[list[Any], list[Any]]:
            """What is trained of the policy, and of the values."""
            own = [*self.head.parameters(), *(() if self.layers is None else self.layers.parameters())]
            policy = [weight for weight in self.policy.parameters() if weight.requires_grad]
            return policy, [weight for weight in own if weight.requires_grad]

        def value_state(self) -> dict[str, Any]:
            """The trained weights of the values, by name, for a checkpoint."""
            return {
                name: weight
                for name, weight in self.named_parameters()
                if weight.requires_grad and not name.startswith("policy.")
            }

    return Pair()


def _value_head(policy: Any) -> Any:
    """One number for a state. It begins at zero everywhere, so that nothing is foretold by chance."""
    from torch import nn

    config = policy.config.get_text_config()
    head = nn.Linear(config.hidden_size, 1)
    for weight in head.parameters():
        nn.init.zeros_(weight)
    return head
