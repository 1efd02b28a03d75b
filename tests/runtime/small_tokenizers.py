"""Small tokenizers built from scratch, which differ in the special tokens that they add to a text."""

from typing import Any

BOS, EOS, PAD = "<s>", "</s>", "<pad>"
ALPHABET = "0123456789+= abcdefghijklmnopqrstuvwxyz:\n"
# The special tokens before and after a text.
KINDS = {
    "adds_bos": (BOS, ""),
    "adds_bos_and_eos": (BOS, EOS),
    "adds_eos": ("", EOS),
    "has_bos_but_adds_none": ("", ""),
    "has_no_bos": ("", ""),
}
TEMPLATES = {
    "none": None,
    "without_bos": "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}"
    "{% if m.role == 'assistant' %}{{ eos_token }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}a:{% endif %}",
}
TEMPLATES["with_bos"] = "{{ '" + BOS + "' }}" + str(TEMPLATES["without_bos"])


def small_tokenizer(kind: str, template: str = "none", merge: tuple[str, str] | None = None) -> Any:
    """A tokenizer of characters. `merge` is a pair of characters that become one token."""
    from tokenizers import Tokenizer, decoders, models, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = [PAD, BOS, EOS, *ALPHABET, *(["".join(merge)] if merge else [])]
    tokenizer: Any = Tokenizer(
        models.BPE(
            vocab={one: place for place, one in enumerate(vocabulary)}, merges=[merge] if merge else []
        )
    )
    tokenizer.decoder = decoders.Fuse()
    before, after = KINDS[kind]
    if before or after:
        ids = [(one, vocabulary.index(one)) for one in (before, after) if one]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=" ".join(one for one in (before, "$A", after) if one), special_tokens=ids
        )
    named = {} if kind == "has_no_bos" else {"bos_token": BOS}
    made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=EOS, pad_token=PAD, **named)
    made.chat_template = TEMPLATES[template]
    return made
