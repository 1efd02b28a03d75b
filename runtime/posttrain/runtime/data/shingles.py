"""Shingles (word n-grams) of texts, to measure how much two texts overlap."""

import hashlib
import re

_WORD = re.compile(r"\w+")


def split_words(text: str) -> list[str]:
    """The words of a text, case-folded and without punctuation."""
    return _WORD.findall(text.casefold())


def shingles(text: str, size: int) -> set[int]:
    """The hashes of all n-grams of `size` words. A shorter text is one n-gram."""
    words = split_words(text)
    if not words:
        return set()
    ngrams = {tuple(words[at : at + size]) for at in range(max(1, len(words) - size + 1))}
    return {_stable_hash(" ".join(ngram)) for ngram in ngrams}


def _stable_hash(ngram: str) -> int:
    """A hash that is the same in every process, unlike Python's `hash`."""
    return int.from_bytes(hashlib.blake2b(ngram.encode(), digest_size=8).digest(), "little")
