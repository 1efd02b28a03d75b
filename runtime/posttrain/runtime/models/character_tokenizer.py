"""Builds a tokenizer from nothing: one token a character, and one for each word that is named."""

from collections.abc import Sequence
from typing import Any

PAD, END, UNKNOWN = "<|pad|>", "<|end|>", "<|unknown|>"


def build_character_tokenizer(alphabet: str, words: Sequence[str]) -> Any:
    """A fast tokenizer over an alphabet. Words become tokens of their own, shown when decoded.

    The library takes another class than the saved one for some architectures (qwen2 among them): byte-level
    BPE, which it fills with this vocabulary. So the letters stand in that form here as well, as bytes; those
    that are more than a byte are added as words are, which every class keeps.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = [PAD, END, UNKNOWN]
    letters = dict.fromkeys(alphabet)
    as_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    plain = {letter: as_bytes.pre_tokenize_str(letter)[0][0] for letter in letters if letter.isascii()}
    vocabulary = {token: index for index, token in enumerate([*special, *plain.values()])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token=UNKNOWN))
    alone = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([alone, as_bytes])
    # Not the byte-level decoder: it would take an added letter such as é for the byte of that number.
    back = [decoders.Replace(byte, letter) for letter, byte in plain.items() if byte != letter]
    tokenizer.decoder = decoders.Sequence([*back, decoders.Fuse()])
    tokenizer.add_special_tokens(special)
    more = [letter for letter in letters if not letter.isascii()]
    tokenizer.add_tokens([AddedToken(word, normalized=False, special=False) for word in (*more, *words)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        unk_token=UNKNOWN,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
