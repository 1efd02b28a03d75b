"""Arguments of a rendering that are no variables of a chat template: the program or the model sets them."""

# Parameters of `apply_chat_template`.
RENDERING_ARGUMENTS = (
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
)
SPECIAL_TOKENS = ("bos_token", "eos_token", "pad_token", "unk_token")
RESERVED_ARGUMENTS = frozenset(
    (*RENDERING_ARGUMENTS, *SPECIAL_TOKENS, "chat_template", "documents", "messages", "tools")
)
