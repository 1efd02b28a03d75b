"""Regular expressions that cannot hang: what `regex` and `matches` share.

A pattern is checked when the recipe is compiled, and run with a limit of time a row, and with one for
the batch: a pattern that backtracks without end costs a known number of seconds, and says so.
"""

import re
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import Params

_MAX_TIMEOUTS_PER_BATCH = 40  # a batch may take as long as this many rows that run out of time
TIMEOUT_REASON = "the pattern ran out of time"


def compile_pattern(pattern: str) -> "re.Pattern[str]":
    """The pattern by Python's own module, which knows its groups. ValueError when it is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"this is no regular expression: {error}") from None


class RegexParams(Params):
    pattern: str = field(
        min_length=1,
        max_length=2000,
        check=compile_pattern,
        description="A regular expression in Python's syntax; (?s), (?i) and the like set its flags.",
    )
    timeout_seconds: float = field(
        default=0.25, gt=0, le=60, description="The longest that one row's search may take."
    )


def search_texts(
    params: RegexParams, texts: Sequence[str | None], search: Callable[[Any, str, float], Any]
) -> tuple[list[Any], frozenset[int]]:
    """What `search(pattern, text, seconds)` gives for each text, and the rows that ran out of time."""
    import regex

    pattern = regex.compile(params.pattern)
    end = time.monotonic() + _MAX_TIMEOUTS_PER_BATCH * params.timeout_seconds
    found: list[Any] = []
    late: set[int] = set()
    for row, text in enumerate(texts):
        left = min(params.timeout_seconds, end - time.monotonic())
        try:
            if left <= 0:
                raise TimeoutError
            found.append(None if text is None else search(pattern, text, left))
        except TimeoutError:
            found.append(None)
            late.add(row)
    return found, frozenset(late)
