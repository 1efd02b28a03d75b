"""The keys inside TRL's mapping arguments that posttrain sets itself, and the recipe keys to use instead.

A test compares this table with the keys that the trainers set.
"""

from collections.abc import Mapping

from posttrain.spec.chat_templates.reserved_arguments import RENDERING_ARGUMENTS

_BATCH = "set `params.batch_size` and `params.micro_batch_size`"
_LENGTH = "set `params.max_completion_length`"
_COUNT = "set `params.num_generations`"
_SEED = "set the recipe's `seed`: with this seed all completions of a prompt would be the same"
_SAMPLING = "completions are sampled: the loss needs the sampling probability of each token"
_MODEL = "set it in the declaration of the model, under `models`"
_RESPONSE = "the trainer sets it: it needs exactly the tokens and their log-probabilities"
_REQUEST = "the trainer sets the content and the form of each request"
_FULL_PROMPT = "training needs the whole prompt: truncate prompts in the steps of the dataset"
_HUB = "transformers downloads its code from the hub, and posttrain does not run code from the hub"
_COMPILED = "the trainer sets it: the generating model is not compiled"
_NO_TOKENIZER = "transformers needs the tokenizer for it, and the trainer does not pass the tokenizer"
_RENDERED = "the trainer sets it: prompts are rendered in full, ready for generation"


def _separate_argument(argument: str) -> str:
    return f"it is a separate argument: use `trl: {{{argument}: ...}}`"


_GENERATION: Mapping[str, str] = {
    **dict.fromkeys(("max_new_tokens", "max_length", "max_tokens"), _LENGTH),
    **dict.fromkeys(("n", "num_return_sequences"), _COUNT),
    **{name: f"set `params.{name}`" for name in ("temperature", "top_p", "top_k", "min_p")},
    "seed": _SEED,
    "max_time": "a time limit makes completions irreproducible: set `params.max_completion_length`",
    **{name: _separate_argument(name) for name in ("repetition_penalty", "cache_implementation")},
    "continuous_batching_config": _separate_argument("transformers_continuous_batching_config"),
    **dict.fromkeys(
        ("do_sample", "num_beams", "use_beam_search", "early_stopping", "length_penalty"),
        _SAMPLING,
    ),
    **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"), _MODEL),
    **dict.fromkeys(
        (
            "output_attentions",
            "output_hidden_states",
            "output_scores",
            "output_logits",
            "return_dict_in_generate",
            "logprobs",
            "prompt_logprobs",
            "prompt_logprob_token_ids",
            "prompt_logprob_start",
            "logprob_token_ids",
            "flat_logprobs",
            "output_kind",
            "echo",
            "return_token_ids",
            "return_tokens_as_token_ids",
            "return_token_offsets",
        ),
        _RESPONSE,
    ),
    **dict.fromkeys(
        (
            "model",
            "prompt",
            "prompt_embeds",
            "suffix",
            "user",
            "request_id",
            "session_id",
            "stream",
            "stream_options",
            "stream_interval",
            "skip_clone",
            "output_text_buffer_length",
        ),
        _REQUEST,
    ),
    **dict.fromkeys(("truncate_prompt_tokens", "truncation_side", "add_special_tokens"), _FULL_PROMPT),
    **dict.fromkeys(
        (
            "low_memory",
            "penalty_alpha",
            "dola_layers",
            "diversity_penalty",
            "num_beam_groups",
            "constraints",
            "force_words_ids",
        ),
        _HUB,
    ),
    **dict.fromkeys(("compile_config", "disable_compile"), _COMPILED),
    "stop_strings": f"{_NO_TOKENIZER}; vLLM takes `stop`",
    "token_healing": _NO_TOKENIZER,
    "prompt_lookup_num_tokens": "transformers supports it only for one prompt at a time",
}
_RESERVED: Mapping[str, Mapping[str, str]] = {
    "accelerator_config": {
        "split_batches": _BATCH,
        "use_configured_state": "set it under `hardware`: the compiler plans processes and strategy",
        "use_seedable_sampler": "the recipe's `seed` sets the order of the rows",
    },
    "gradient_accumulation_kwargs": {"num_steps": _BATCH},
    "chat_template_kwargs": {
        **dict.fromkeys(RENDERING_ARGUMENTS, _RENDERED),
        "chat_template": _MODEL,
        "tools": "tools belong to an environment: declare one under `environments`",
    },
    "generation_kwargs": _GENERATION,
    "liger_kernel_config": {
        "fused_linear_cross_entropy": "it is disabled: it does not return the logits that the trainers need"
    },
    "optim_args": {"weight_decay": "set `params.weight_decay`"},
    "transformers_continuous_batching_config": {"seed": _SEED},
}


def nested_recipe_equivalent(argument: str, key: str) -> str | None:
    """Return what to use instead of this key, or None if the key is allowed."""
    return _RESERVED.get(argument, {}).get(key)


def nested_reserved_keys(argument: str) -> set[str]:
    """Return the reserved keys of an argument."""
    return set(_RESERVED.get(argument, ()))
