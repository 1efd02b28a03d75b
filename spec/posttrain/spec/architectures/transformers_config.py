"""Converts a shape to the configuration from which transformers builds the same model."""

from posttrain.spec.architectures.model_shapes import Shape

# The configuration keys of architectures that differ from the common names.
CONFIG_KEYS = {
    "gpt2": {
        "hidden_size": "n_embd",
        "num_hidden_layers": "n_layer",
        "num_attention_heads": "n_head",
        "intermediate_size": "n_inner",
        "max_position_embeddings": "n_positions",
    },
    "bloom": {"num_hidden_layers": "n_layer", "num_attention_heads": "n_head"},
    "falcon": {"intermediate_size": "ffn_hidden_size", "num_key_value_heads": "num_kv_heads"},
}
# The special tokens of a family can be outside a smaller vocabulary.
_NO_SPECIAL_TOKENS = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
# The keys that an architecture derives from other values and does not accept.
_DERIVED_KEYS = {
    "gpt2": ("num_key_value_heads", "head_dim"),
    "gpt_neox": ("num_key_value_heads", "head_dim"),
    "bloom": ("num_key_value_heads", "head_dim", "intermediate_size", "max_position_embeddings"),
    "falcon": ("head_dim",),
    "qwen2": ("head_dim",),
    "olmo2": ("head_dim",),
    "olmo3": ("head_dim",),
    "phi3": ("head_dim",),
    "phimoe": ("head_dim",),
    "smollm3": ("head_dim",),
}


def transformers_config(shape: Shape) -> dict[str, object]:
    """Return the configuration of exactly this shape, for `AutoConfig.for_model(**config)`."""
    model_type = shape.architecture.model_type
    common: dict[str, object] = {
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "max_position_embeddings": shape.positions,
        "vocab_size": shape.vocab,
        "tie_word_embeddings": shape.tied,
    }
    renamed = CONFIG_KEYS.get(model_type, {})
    dropped = _DERIVED_KEYS.get(model_type, ())
    config = {renamed.get(k, k): v for k, v in common.items() if k not in dropped}
    return {"model_type": model_type, **config, **_NO_SPECIAL_TOKENS, **_architecture_keys(shape)}


def _architecture_keys(shape: Shape) -> dict[str, object]:
    """Return the keys that only some architectures have."""
    arch, special = shape.architecture, dict[str, object]()
    if arch.model_type == "falcon":
        special |= {
            "new_decoder_architecture": arch.name == "falcon_grouped",
            "multi_query": arch.name == "falcon",
            "alibi": arch.positions == "alibi",
            "parallel_attn": arch.name != "falcon_alibi",
            "bias": bool(arch.bias),
        }
    if arch.model_type == "phimoe":
        special |= {"attention_bias": True, "lm_head_bias": True}
    if shape.window:
        special["sliding_window"] = shape.window
    if shape.full_every > 1 and arch.model_type != "llama4_text":
        special["layer_types"] = _layer_types(shape)
    return {**special, **_expert_keys(shape), **_linear_attention_keys(shape)}


def _layer_types(shape: Shape) -> list[str]:
    other = "linear_attention" if shape.linear_keys else "sliding_attention"
    return [other if (layer + 1) % shape.full_every else "full_attention" for layer in range(shape.layers)]


def _expert_keys(shape: Shape) -> dict[str, object]:
    if not shape.experts:
        return {}
    if shape.architecture.model_type == "qwen3_moe":
        return {
            "num_experts": shape.experts,
            "num_experts_per_tok": shape.active_experts,
            "moe_intermediate_size": shape.expert_width,
            "decoder_sparse_step": shape.experts_every,
        }
    named: dict[str, object] = {
        "num_local_experts": shape.experts,
        "num_experts_per_tok": shape.active_experts,
    }
    if shape.architecture.model_type == "llama4_text":
        named |= {
            "intermediate_size": shape.expert_width,
            "intermediate_size_mlp": shape.intermediate,
            "interleave_moe_layer_step": shape.experts_every,
        }
    return named


def _linear_attention_keys(shape: Shape) -> dict[str, object]:
    if not shape.linear_keys:
        return {}
    return {
        "linear_num_key_heads": shape.linear_keys,
        "linear_num_value_heads": shape.linear_values,
        "linear_key_head_dim": shape.linear_dim,
        "linear_value_head_dim": shape.linear_dim,
        "linear_conv_kernel_dim": 4,
    }
