"""Builds a tokenizer from nothing: one token a character, and one for each word that is named."""

from collections.abc import Sequence
from typing import Any

PAD, END, UNKNOWN = "<|pad|>", "<|end|>", "<|unknown|>"


def characters(alphabet: str, words: Sequence[str]) -> Any:
    """A fast tokenizer over an alphabet. Words become tokens of their own, shown when decoded."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = [PAD, END, UNKNOWN]
    letters = [*special, *dict.fromkeys(alphabet)]
    vocabulary = {token: index for index, token in enumerate(letters)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens(special)
    tokenizer.add_tokens([AddedToken(word, normalized=False, special=False) for word in words])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        unk_token=UNKNOWN,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
