"""Makes a model with random weights from a declared shape."""

from collections.abc import Mapping
from typing import Any

from posttrain.runtime.faults import StepFault

# What an architecture calls the dimensions, where it has names of its own.
_NAMES: Mapping[str, Mapping[str, str]] = {
    "gpt2": {
        "layers": "n_layer",
        "hidden": "n_embd",
        "heads": "n_head",
        "intermediate": "n_inner",
        "context": "n_positions",
    },
}
_USUAL = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "intermediate": "intermediate_size",
    "context": "max_position_embeddings",
}


def scratch(shape: Mapping[str, Any], tokenizer: Any, seed: int) -> Any:
    """The model, its weights drawn from the seed."""
    from transformers import AutoConfig, AutoModelForCausalLM, set_seed

    set_seed(seed)
    try:
        config = AutoConfig.for_model(shape["family"], **_dimensions(shape, len(tokenizer)))
    except ValueError as error:
        raise StepFault(f"no architecture is named `{shape['family']}`: {error}") from None
    config.pad_token_id = tokenizer.pad_token_id
    config.eos_token_id = tokenizer.eos_token_id
    config.bos_token_id = tokenizer.bos_token_id
    model = AutoModelForCausalLM.from_config(config)
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    return model


def _dimensions(shape: Mapping[str, Any], vocabulary: int) -> dict[str, Any]:
    heads, hidden = shape["heads"], shape["hidden"]
    given = {
        **{name: shape[name] for name in ("layers", "hidden", "heads", "context")},
        "kv_heads": shape["kv_heads"] or heads,
        "intermediate": shape["intermediate"] or 4 * hidden,
    }
    names = _NAMES.get(shape["family"], _USUAL)
    dimensions = {names[name]: value for name, value in given.items() if name in names}
    if names is _USUAL:
        dimensions["head_dim"] = hidden // heads
    if shape["rope_theta"] is not None:
        dimensions["rope_parameters"] = {"rope_type": "default", "rope_theta": shape["rope_theta"]}
    if shape["spread"] is not None:
        dimensions["initializer_range"] = shape["spread"]
    return {**dimensions, "vocab_size": vocabulary, "tie_word_embeddings": shape["tied"], "dtype": "float32"}
