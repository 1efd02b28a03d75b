"""The number of parameters that a stage trains: all, a part of them, or those of an adapter of PEFT.

The rules are those of PEFT: a list of target modules names the ends of module names, the first matching
pattern decides about a rank, and `modules_to_save` trains whole modules. A test compares the counts with real
models.
"""

import re
from collections.abc import Iterable

from posttrain.compiler.facts import parameter_counts
from posttrain.compiler.facts.parameter_names import (
    LinearModule,
    Parameter,
    embedding_modules,
    linear_modules,
    matches_pattern,
    named_parameters,
)
from posttrain.spec.adapter_declaration import Adapter
from posttrain.spec.architectures.model_shapes import Shape


def trained_parameter_count(
    adapter: Adapter | None, shape: Shape, *, scorer: bool = False, added_tokens: int = 0
) -> int | None:
    """Return the number of trained parameters; None if it is not known before the model is loaded.

    A scorer has a head with one output, which it trains completely.
    """
    if adapter is None or adapter.is_full:
        selected = selected_parameters(adapter, shape)
        if selected is not None:
            head = embedding_modules(shape)[1]
            return sum(p.elements for p in selected if not (scorer and p.module == head)) + (
                _score_head(adapter, shape) if scorer else 0
            )
        if adapter is not None and (adapter.trainable or adapter.freeze):
            return None
        dropped = parameter_counts.head_parameters(shape) if scorer and not shape.tied else 0
        return parameter_counts.count_parameters(shape) - dropped + (shape.hidden if scorer else 0)
    extra = _auxiliary_parameters(adapter, shape, added_tokens, scorer)
    if extra is None:
        return None
    modules = targeted_modules(adapter, shape)
    return sum(_module_parameters(adapter, one, shape) for one in modules) + extra + scorer * shape.hidden


def selected_parameters(adapter: Adapter | None, shape: Shape) -> tuple[Parameter, ...] | None:
    """Return the parameters that `trainable` and `freeze` select; None if the names are not known."""
    known = named_parameters(shape)
    if known is None:
        return None
    return tuple(
        p for p in known if adapter is None or is_selected(p.name, adapter.trainable, adapter.freeze)
    )


def is_selected(name: str, trainable: Iterable[str], freeze: Iterable[str]) -> bool:
    """Whether a parameter is trained: it matches `trainable`, if that is set, and no pattern of `freeze`."""
    wanted = tuple(trainable)
    return (not wanted or any(matches_pattern(name, one) for one in wanted)) and not any(
        matches_pattern(name, one) for one in freeze
    )


def targeted_modules(adapter: Adapter, shape: Shape) -> tuple[LinearModule, ...]:
    """Return the modules that get the adapter."""
    names = target_names(adapter, shape)
    layers = frozenset(adapter.layers_to_transform)
    return tuple(
        one
        for one in linear_modules(shape)
        if any(_has_suffix(one.name, name) for name in names) and (not layers or one.layer in layers)
    )


def target_names(adapter: Adapter, shape: Shape) -> tuple[str, ...]:
    """Return the names of the target modules."""
    if adapter.target_modules == "all-linear":
        return parameter_counts.linear_module_names(shape)
    if adapter.target_modules == "auto":
        ia3 = adapter.type == "ia3"
        return shape.architecture.ia3_modules if ia3 else shape.architecture.lora
    return tuple(adapter.target_modules)


def _has_suffix(module: str, name: str) -> bool:
    return module == name or module.endswith(f".{name}")


def _module_parameters(adapter: Adapter, module: LinearModule, shape: Shape) -> int:
    inputs, outputs = module.matrix.inputs, module.matrix.outputs
    match adapter.type:
        case "ia3":
            names = adapter.feedforward_modules or shape.architecture.ia3_feedforward_modules
            return inputs if any(_has_suffix(module.name, name) for name in names) else outputs
        case "oft":
            size = adapter.oft_block_size
            return inputs // size * (size * (size - 1) // 2)
        case "vera":
            return adapter.rank + outputs
        case _:
            rank = _pattern_value(adapter, module.name)
            biased = adapter.bias == "lora_only" and module.matrix.bias
            return rank * (inputs + outputs) + (adapter.use_dora + biased) * outputs


def _pattern_value(adapter: Adapter, module: str) -> int:
    for pattern, rank in adapter.rank_pattern.items():
        if re.match(rf"(.*\.)?({pattern})$", module):
            return rank
    return adapter.rank


def _auxiliary_parameters(adapter: Adapter, shape: Shape, added_tokens: int, scorer: bool) -> int | None:
    """Return the parameters outside the target modules: whole modules, rows of embeddings, biases."""
    indices = adapter.trainable_token_indices
    tokens = added_tokens if indices == "added" else len(set(indices))
    found = tokens * shape.hidden * len(token_modules(adapter, shape, scorer=scorer))
    if not adapter.modules_to_save and adapter.bias != "all":
        return found
    known = named_parameters(shape)
    if known is None:
        return None
    saved = [p for p in known if _is_below(p.module, adapter.modules_to_save)]
    biases = [p for p in known if adapter.bias == "all" and "bias" in p.name and p not in saved]
    return found + sum(p.elements for p in (*saved, *biases))


def token_modules(adapter: Adapter, shape: Shape, *, scorer: bool = False) -> tuple[str, ...]:
    """Return the modules of which `trainable_token_indices` trains rows.

    An output layer with weights of its own is one of them, unless it is trained completely.
    """
    if not adapter.trainable_token_indices:
        return ()
    embeddings, head = embedding_modules(shape)
    saved = any(head.endswith(name) for name in adapter.modules_to_save)
    own_head = not (shape.tied or scorer or saved)
    return (embeddings, head) if own_head else (embeddings,)


def _is_below(module: str, names: Iterable[str]) -> bool:
    """Whether a module, or one that contains it, ends with one of the names, as PEFT compares them."""
    parts = module.split(".")
    around = [".".join(parts[:end]) for end in range(1, len(parts) + 1)]
    return any(each.endswith(name) for each in around for name in names)


def _score_head(adapter: Adapter | None, shape: Shape) -> int:
    patterns = (adapter.trainable, adapter.freeze) if adapter is not None else ((), ())
    return shape.hidden if is_selected("score.weight", *patterns) else 0
