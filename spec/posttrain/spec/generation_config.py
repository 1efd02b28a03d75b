"""What a model's `generation_config.json` would change in decoding, which the recipe alone determines."""

from collections.abc import Mapping
from typing import Any

# The fields that `sampling: {generation_config: auto}` can take from the file: those that vLLM takes too.
SAMPLING_FIELDS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
# The fields that name tokens. They always apply: the end tokens are needed to stop.
TOKEN_FIELDS = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")
# Fields that do not change which tokens are generated: caches, outputs, speculation, metadata, length limits
# that a stage always sets.
_WITHOUT_EFFECT = frozenset(
    {
        *TOKEN_FIELDS,
        "max_length",
        "max_new_tokens",
        "use_cache",
        "cache_implementation",
        "cache_config",
        "max_cache_len",
        "return_legacy_cache",
        "low_memory",
        "prefill_chunk_size",
        "compile_config",
        "disable_compile",
        "continuous_batching_config",
        "output_attentions",
        "output_hidden_states",
        "output_scores",
        "output_logits",
        "return_dict_in_generate",
        "is_assistant",
        "num_assistant_tokens",
        "num_assistant_tokens_schedule",
        "assistant_confidence_threshold",
        "assistant_early_exit",
        "assistant_lookbehind",
        "target_lookbehind",
        "transformers_version",
        "trust_remote_code",
    }
)
# The values with which a field has no effect, besides null, false and empty lists.
_NEUTRAL: Mapping[str, Any] = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "typical_p": 1.0,
    "repetition_penalty": 1.0,
    "encoder_repetition_penalty": 1.0,
    "length_penalty": 1.0,
    "num_beams": 1,
    "num_beam_groups": 1,
    "num_return_sequences": 1,
    "guidance_scale": 1.0,
}


def decoding_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a generation config that would change the generated tokens."""
    return {
        name: value
        for name, value in sorted(config.items())
        if name not in _WITHOUT_EFFECT
        and not name.startswith("_")
        and value not in (None, False, 0, [], {})
        and value != _NEUTRAL.get(name)
    }


def format_settings(settings: Mapping[str, Any]) -> str:
    """Settings in one line, such as `repetition_penalty: 1.1, top_k: 20`."""
    return ", ".join(f"{name}: {value}" for name, value in settings.items())
