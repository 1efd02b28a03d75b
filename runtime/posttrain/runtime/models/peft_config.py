"""Configures new adapters: the configuration of PEFT for the adapter of a training stage."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from posttrain.runtime.errors import StepError
from posttrain.spec.architectures.model_shapes import find_architecture
from posttrain.spec.step_params.adapter_options import AdapterOptions


def new_adapter_config(adapter: AdapterOptions, model: Any, tokenizer: Any, task: str) -> Any:
    """Return the configuration of a new adapter. Raises StepError for modules that the model lacks."""
    from transformers.pytorch_utils import Conv1D

    ia3 = adapter.type == "ia3"
    targets = resolve_target_modules(adapter.target_modules or "auto", model, ia3=ia3)
    shared: dict[str, Any] = {
        "target_modules": targets,
        "modules_to_save": _resolve_modules_to_save(adapter.modules_to_save, model),
        # GPT-2's Conv1D layers have transposed weights.
        "fan_in_fan_out": any(isinstance(module, Conv1D) for module in model.modules()),
        "task_type": task,
    }
    if not ia3:
        shared |= _layer_selection(adapter, model)
    return _CONFIGS[adapter.type](adapter, model, tokenizer, shared)


def _lora_config(adapter: AdapterOptions, model: Any, tokenizer: Any, shared: dict[str, Any]) -> Any:
    from peft import LoraConfig

    if indices := _token_indices(adapter, model, tokenizer):
        shared["trainable_token_indices"] = indices
    init = adapter.init_lora_weights
    return LoraConfig(
        r=cast(int, adapter.r),
        lora_alpha=cast(int, adapter.lora_alpha),
        use_rslora=adapter.use_rslora,
        use_dora=adapter.use_dora,
        lora_dropout=adapter.lora_dropout,
        init_lora_weights=True if init == "default" else cast(Any, init),
        bias=adapter.bias,
        rank_pattern=dict(adapter.rank_pattern),
        alpha_pattern=dict(adapter.alpha_pattern),
        **shared,
    )


def _ia3_config(adapter: AdapterOptions, model: Any, tokenizer: Any, shared: dict[str, Any]) -> Any:
    from peft import IA3Config

    targets = shared["target_modules"]
    architecture = find_architecture(model.config.model_type)
    usual = architecture.ia3_feedforward_modules if architecture else ()
    chosen = adapter.feedforward_modules or tuple(name for name in usual if name in targets)
    if foreign := [name for name in chosen if name not in targets]:
        raise StepError(
            f"feedforward_modules lists {', '.join(foreign)}, which target_modules does not",
            f"the target modules are {', '.join(targets)}",
        )
    return IA3Config(feedforward_modules=list(chosen), **shared)


def _oft_config(adapter: AdapterOptions, model: Any, tokenizer: Any, shared: dict[str, Any]) -> Any:
    from peft import OFTConfig

    if shared["fan_in_fan_out"]:
        message = f"OFT does not support the transposed weights of {model.config.model_type}"
        raise StepError(message, "use another adapter type, such as lora")
    size = adapter.oft_block_size
    for name, module in model.named_modules():
        width = _input_width(module)
        targeted = any(matches_module(target, name) for target in shared["target_modules"])
        if width is not None and targeted and width % size:
            # PEFT would choose another size.
            raise StepError(
                f"oft_block_size {size} does not divide the {width} inputs of {name}",
                f"set `oft_block_size` to a divisor of {width}",
            )
    return OFTConfig(
        oft_block_size=size,
        use_cayley_neumann=adapter.use_cayley_neumann,
        module_dropout=adapter.module_dropout,
        **shared,
    )


def _vera_config(adapter: AdapterOptions, model: Any, tokenizer: Any, shared: dict[str, Any]) -> Any:
    from peft import VeraConfig

    return VeraConfig(
        r=cast(int, adapter.r),
        vera_dropout=adapter.vera_dropout,
        d_initial=adapter.d_initial,
        projection_prng_key=adapter.projection_prng_key,
        **shared,
    )


_CONFIGS: Mapping[str, Callable[[AdapterOptions, Any, Any, dict[str, Any]], Any]] = {
    "lora": _lora_config,
    "qlora": _lora_config,
    "ia3": _ia3_config,
    "oft": _oft_config,
    "vera": _vera_config,
}


def _input_width(module: Any) -> int | None:
    from torch import nn

    return module.in_features if isinstance(module, nn.Linear) else None


def _layer_selection(adapter: AdapterOptions, model: Any) -> dict[str, Any]:
    if not adapter.layers_to_transform:
        return {}
    layers = model.config.num_hidden_layers
    if outside := [index for index in adapter.layers_to_transform if not 0 <= index < layers]:
        raise StepError(
            f"layers_to_transform lists layer {outside[0]}, but the model has {layers} layers",
            f"use indices from 0 to {layers - 1}",
        )
    chosen: dict[str, Any] = {"layers_to_transform": list(adapter.layers_to_transform)}
    return chosen if adapter.layers_pattern is None else {**chosen, "layers_pattern": adapter.layers_pattern}


def _resolve_modules_to_save(names: Sequence[str], model: Any) -> list[str] | None:
    modules = [name for name, _ in model.named_modules()]
    # As PEFT compares them, also in the middle of a word.
    if missing := [name for name in names if not any(module.endswith(name) for module in modules)]:
        raise StepError(
            f"the model has no modules named {', '.join(missing)}, which modules_to_save lists",
            f"its modules include {', '.join(_last_parts(modules))}",
        )
    if names and getattr(model.config, "tie_word_embeddings", False):
        tied = (model.get_input_embeddings(), model.get_output_embeddings())
        found = {name for name, module in model.named_modules() if any(module is one for one in tied)}
        if clash := [each for each in names if any(one.endswith(each) for one in found)]:
            raise StepError(
                f"modules_to_save lists {', '.join(clash)}, but the model's input and output embeddings share"
                " their weights, which separate copies would not",
                "use `trainable_token_indices` to train embeddings, or train all weights",
            )
    return list(names) or None


def _last_parts(modules: Sequence[str]) -> list[str]:
    return sorted({name.rpartition(".")[2] for name in modules if name and not name.split(".")[-1].isdigit()})


def _token_indices(adapter: AdapterOptions, model: Any, tokenizer: Any) -> dict[str, list[int]]:
    """Return the ids of the tokens to train, by the names of the modules that have a row for each token.

    An output layer with weights of its own is one of them, unless it is trained completely.
    """
    added = [tokenizer.convert_tokens_to_ids(token) for token in adapter.trainable_tokens]
    ids = sorted({*adapter.trainable_token_indices, *added})
    if not ids:
        return {}
    rows = model.get_input_embeddings().weight.shape[0]
    if outside := [index for index in ids if not 0 <= index < rows]:
        raise StepError(
            f"trainable_token_indices lists the id {outside[0]}, but the model has {rows} embeddings",
            f"use ids from 0 to {rows - 1}",
        )
    names = {id(module): name.rpartition(".")[2] for name, module in model.named_modules()}
    output = model.get_output_embeddings()
    tied = getattr(model.config, "tie_word_embeddings", False)
    found = {names[id(model.get_input_embeddings())]: ids}
    if tied or output is None or names[id(output)] in adapter.modules_to_save:
        return found
    if getattr(output, "bias", None) is not None:
        # PEFT's layer for tokens drops the bias.
        raise StepError(
            "trainable_token_indices cannot train rows of an output layer that has a bias",
            f"add `modules_to_save: [{names[id(output)]}]`",
        )
    return found | {names[id(output)]: ids}


def resolve_target_modules(
    target_modules: str | Sequence[str], model: Any, *, ia3: bool = False
) -> list[str]:
    """Return the names of the modules that get an adapter. Raises StepError for unknown names."""
    linear = linear_modules(model)
    if target_modules == "all-linear":
        return linear
    if target_modules == "auto":
        architecture = find_architecture(model.config.model_type)
        usual = () if architecture is None else architecture.ia3_modules if ia3 else architecture.lora
        if not usual:
            raise StepError(
                f"`target_modules: auto` does not support the architecture {model.config.model_type}",
                f"list modules in adapter.target_modules; the model has {', '.join(linear)}",
            )
        target_modules = usual
    missing = [name for name in target_modules if not any(_names_module(module, name) for module in linear)]
    if missing:
        raise StepError(
            f"the model has no linear modules named {', '.join(missing)}, which target_modules lists",
            f"its linear modules are {', '.join(linear)}",
        )
    return list(target_modules)


def _names_module(module: str, name: str) -> bool:
    return module == name or name.endswith(f".{module}")


def matches_module(target: str, name: str) -> bool:
    """Whether a name in `target_modules` selects a module, by the end of its full name."""
    return name == target or name.endswith(f".{target}")


def linear_modules(model: Any) -> list[str]:
    """Return the last name components of the model's linear modules, without the output layer."""
    from torch import nn
    from transformers.pytorch_utils import Conv1D

    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    names = {
        name.rpartition(".")[2]
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear | Conv1D) and module is not head
    }
    return sorted(names - {"score"})
