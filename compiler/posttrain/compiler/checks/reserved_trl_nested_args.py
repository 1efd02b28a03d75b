"""The keys within TRL's mappings that posttrain sets itself, and what a recipe says instead.

A test holds this to what the trainers set in them: none of their keys may be missing here.
"""

from collections.abc import Mapping

_BATCH = "set `params.batch_size` and `params.micro_batch_size`"
_LENGTH = "set `params.max_completion_length`"
_COUNT = "set `params.num_generations`"
_SEED = "the recipe's `seed` decides what is drawn; all completions of a prompt would be drawn by this one"
_SAMPLING = "completions are drawn one by one: what is learnt goes by the chance that each of them had"
_MODEL = "say it where the model is declared, under `models`"
_RESPONSE = "the trainer reads tokens and their log-probabilities, and asks for no less and no more"
_REQUEST = "the trainer says what is asked for, of whom, and how it is handed back"
_FULL_PROMPT = "what is learnt goes by the whole prompt: cut prompts in the dataset's steps"
_HUB = "transformers takes its code from the hub, and posttrain runs no code that comes from there"
_COMPILED = "the trainer sets it: what writes is not compiled"
_NO_TOKENIZER = "transformers needs the tokenizer for it, which the trainer does not give it"
_RENDERED = "the trainer sets it: prompts are rendered for completions to be written, and whole"


def _separate_argument(argument: str) -> str:
    return f"it is an argument of its own: write `trl: {{{argument}: ...}}`"


_GENERATION: Mapping[str, str] = {
    **dict.fromkeys(("max_new_tokens", "max_length", "max_tokens"), _LENGTH),
    **dict.fromkeys(("n", "num_return_sequences"), _COUNT),
    **{name: f"set `params.{name}`" for name in ("temperature", "top_p", "top_k", "min_p")},
    "seed": _SEED,
    "max_time": (
        "a completion that ends by the clock is another one each time: set `params.max_completion_length`"
    ),
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
    "prompt_lookup_num_tokens": "transformers does it for one prompt at a time alone",
}
_RESERVED: Mapping[str, Mapping[str, str]] = {
    "accelerator_config": {
        "split_batches": _BATCH,
        "use_configured_state": "say it under `hardware`: processes and strategy are planned",
        "use_seedable_sampler": "the recipe's `seed` decides the order of the rows",
    },
    "gradient_accumulation_kwargs": {"num_steps": _BATCH},
    "chat_template_kwargs": {
        **dict.fromkeys(
            (
                "add_generation_prompt",
                "continue_final_message",
                "conversation",
                "max_length",
                "padding",
                "return_assistant_tokens_mask",
                "return_dict",
                "return_tensors",
                "tokenize",
                "tokenizer_kwargs",
                "truncation",
            ),
            _RENDERED,
        ),
        "chat_template": _MODEL,
        "tools": "what a model may do it does in an environment: declare one under `environments`",
    },
    "generation_kwargs": _GENERATION,
    "liger_kernel_config": {
        "fused_linear_cross_entropy": "it is off: it takes the logits away, which trainers read"
    },
    "optim_args": {"weight_decay": "set `params.weight_decay`"},
    "transformers_continuous_batching_config": {"seed": _SEED},
}


def nested_recipe_equivalent(argument: str, key: str) -> str | None:
    """What a recipe says instead of giving this key; None when it may be given."""
    return _RESERVED.get(argument, {}).get(key)


def nested_reserved_keys(argument: str) -> set[str]:
    """All the keys within an argument that are not given there."""
    return set(_RESERVED.get(argument, ()))
