"""The adapter of a checked stage as the memory model needs it."""

from posttrain.compiler.checks.trained_model import TrainedModel
from posttrain.compiler.facts.parameter_names import embedding_modules
from posttrain.compiler.facts.trained_parameters import (
    targeted_modules,
    token_modules,
    trained_parameter_count,
)
from posttrain.compiler.memory.workload import LoraAdapter
from posttrain.spec.adapter_declaration import FIELD_TYPES, Adapter
from posttrain.spec.architectures.model_shapes import Shape

# Outputs of a target module that autograd saves to scale them; DoRA scales two of them.
_SAVED_OUTPUTS = {"ia3": 1, "oft": 1, "vera": 1}


def lora_adapter(trained_model: TrainedModel, shape: Shape) -> LoraAdapter | None:
    """Return the adapter of a stage; None if it trains all weights or a part of them."""
    declared, model = trained_model.adapter, trained_model.base_model
    if declared is None or declared.is_full:
        return None
    quantized = declared.type == "qlora" or (model is not None and model.quantize == "nf4")
    targets = tuple(dict.fromkeys(one.matrix.name for one in targeted_modules(declared, shape)))
    low_rank = declared.type in FIELD_TYPES["r"]
    # Shared embeddings are merged for the output layer too.
    merged = len(token_modules(declared, shape)) > 1 or (
        shape.tied and bool(declared.trainable_token_indices)
    )
    return LoraAdapter(
        rank=declared.rank if low_rank else 0,
        target_modules=targets,
        quantized=quantized,
        dropout=declared.dropout,
        saved_outputs=_SAVED_OUTPUTS.get(declared.type, 0) + (2 if declared.use_dora else 0),
        trains_head=merged or _saves_head(declared, shape),
        merges_head=merged,
    )


def _saves_head(adapter: Adapter, shape: Shape) -> bool:
    head = embedding_modules(shape)[1]
    return any(head.endswith(name) for name in adapter.modules_to_save)


def trained_parameters(trained_model: TrainedModel, shape: Shape) -> int | None:
    """Return the number of parameters that the adapter trains, if it is known."""
    declared = trained_model.adapter
    if declared is None:
        return None
    tokenizer = trained_model.base_model.tokenizer if trained_model.base_model is not None else None
    tokens = len(tokenizer.new_tokens) if tokenizer is not None else 0
    return trained_parameter_count(declared, shape, added_tokens=tokens)
