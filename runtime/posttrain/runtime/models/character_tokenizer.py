"""Builds a character-level tokenizer: one token for each character, and one for each listed word."""

from collections.abc import Sequence
from typing import Any

from posttrain.spec.chat_templates.builtin_templates import (
    PAD_TOKEN,
    UNKNOWN_TOKEN,
    BuiltinTemplate,
    character_vocabulary,
)


def build_character_tokenizer(
    alphabet: str,
    words: Sequence[str],
    template: BuiltinTemplate | None = None,
    special_words: Sequence[str] = (),
) -> Any:
    """Build a fast tokenizer over an alphabet. Each word is one token, which decoding shows, except special
    ones.

    The tokens and letters that a built-in template needs are added.

    For some architectures, such as qwen2, transformers ignores the saved tokenizer class and loads this
    vocabulary into byte-level BPE. Therefore ASCII characters are stored in their byte-level form. Other
    characters have more than one byte; they are added tokens, like words, which every class supports.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokens = character_vocabulary(alphabet, words, template, special_words)
    special, letters = list(tokens.special), tokens.letters
    as_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    plain = {letter: as_bytes.pre_tokenize_str(letter)[0][0] for letter in letters if letter.isascii()}
    vocabulary = {token: index for index, token in enumerate([*special, *plain.values()])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token=UNKNOWN_TOKEN))
    alone = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([alone, as_bytes])
    # Not the byte-level decoder: it would decode an added character such as é as the byte of that number.
    back = [decoders.Replace(byte, letter) for letter, byte in plain.items() if byte != letter]
    tokenizer.decoder = decoders.Sequence([*back, decoders.Fuse()])
    tokenizer.add_special_tokens(special)
    more = [letter for letter in letters if not letter.isascii()]
    tokenizer.add_tokens(
        [AddedToken(word, normalized=False, special=False) for word in (*more, *tokens.words)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD_TOKEN,
        eos_token=tokens.end,
        unk_token=UNKNOWN_TOKEN,
        **({} if tokens.bos is None else {"bos_token": tokens.bos}),
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
