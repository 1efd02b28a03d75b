"""Hands vLLM the weights of a model under an adapter, and leaves the model's own as they were.

TRL adds the adapter to the weights below it, sends them, and takes it off again. What is left differs from
what was there by a rounding, more so in half precision, and the next time by another: after many steps the
adapter stands on weights that no file has, and a run that goes on from a checkpoint is another run. Here
the weights are merged in one layer at a time, and put back from a copy.
"""

from collections.abc import Iterator
from typing import Any

_PREFIX = "base_model.model."
_SAVED = "modules_to_save.default."


def merged_exactly(engine: Any) -> None:
    """Have the engine's weights made so, where no process lacks a part of them and none is quantised."""
    if _fits(engine):
        engine._iter_named_params = lambda: merged(engine.model)


def _fits(engine: Any) -> bool:
    from accelerate.utils import is_peft_model

    state: Any = engine.accelerator.state
    plugin = getattr(state, "deepspeed_plugin", None)
    divided = state.distributed_type == "FSDP" or (plugin is not None and plugin.zero_stage == 3)
    return bool(is_peft_model(engine.model)) and not divided and _plain(engine.model)


def _plain(model: Any) -> bool:
    return all(weight.is_floating_point() for weight in model.parameters())


def merged(model: Any) -> Iterator[tuple[str, Any]]:
    """The weights as they are with the adapter in them, by the names that they have without one."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    layers = {name: layer for name, layer in model.named_modules() if isinstance(layer, BaseTunerLayer)}
    for name, weight in model.named_parameters():
        if model.prefix in name or "original_module" in name:
            continue  # the adapter's own, and those that others stand for
        owner = layers.get(name.partition(".base_layer")[0]) if ".base_layer." in name else None
        plain = name.removeprefix(_PREFIX).replace(".base_layer", "").replace(_SAVED, "")
        yield plain, weight.data if owner is None else _with(owner, weight)


def _with(layer: Any, weight: Any) -> Any:
    """A weight of a layer with the adapter in it. A copy: who takes it may keep it for a while."""
    import torch

    with torch.no_grad():
        before = [(one, one.data) for one in layer.get_base_layer().parameters(recurse=False)]
        for one, data in before:
            one.data = data.clone()
        try:
            layer.merge()
            return weight.data.clone()  # which is taken off again in place
        finally:
            layer.unmerge()
            for one, data in before:
                one.data = data
