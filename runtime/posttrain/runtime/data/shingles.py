"""Texts as sets of short runs of words, for telling which have much in common."""

import hashlib
import re

_WORD = re.compile(r"\w+")


def split_words(text: str) -> list[str]:
    """The words of a text without case and punctuation."""
    return _WORD.findall(text.casefold())


def shingles(text: str, size: int) -> set[int]:
    """A number for each run of so many words; a shorter text is one run."""
    found = split_words(text)
    if not found:
        return set()
    runs = {tuple(found[at : at + size]) for at in range(max(1, len(found) - size + 1))}
    return {_stable_hash(" ".join(run)) for run in runs}


def _stable_hash(run: str) -> int:
    """The same anywhere, as Python's own hash is not."""
    return int.from_bytes(hashlib.blake2b(run.encode(), digest_size=8).digest(), "little")
