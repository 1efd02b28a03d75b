"""Lets a module with trained token rows have the attributes of the module that it wraps.

With `trainable_token_indices`, PEFT wraps the input embeddings and the output layer. The wrapper has the
attribute `weight` only, but TRL reads the bias of the output layer too, so that training fails. The number of
embeddings, which we check, is missing as well.

    trl/trainer/utils.py:1633 `add_fused_lm_head._fused_forward`: `weight, bias = lm_head.weight`
"""

from typing import Any


def expose_wrapped_attributes() -> None:
    """Give PEFT's wrapper the other attributes of the wrapped module."""
    from peft.utils.other import TrainableTokensWrapper

    wrapper: Any = TrainableTokensWrapper
    if getattr(wrapper, "exposes_attributes", False):
        return
    has_weight, get_weight = wrapper._hasattr_wrapped, wrapper._getattr_wrapped

    def has_wrapped(self: Any, name: str, modules: Any) -> bool:
        adapter = modules.get("token_adapter")  # not yet set while the wrapper is created
        return has_weight(self, name, modules) or hasattr(getattr(adapter, "base_layer", None), name)

    def get_wrapped(self: Any, name: str, modules: Any) -> Any:
        if has_weight(self, name, modules):
            return get_weight(self, name, modules)
        return getattr(modules["token_adapter"].base_layer, name)

    wrapper._hasattr_wrapped, wrapper._getattr_wrapped = has_wrapped, get_wrapped
    wrapper.exposes_attributes = True
