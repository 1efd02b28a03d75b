"""Regular expressions with a time limit, for the ops `regex` and `matches`.

A pattern is checked when the recipe is compiled. At run time there is a time limit for each row and one for
the batch, so that a pattern with catastrophic backtracking costs a bounded time.
"""

import re
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from pydantic import Field

from posttrain.spec.extension import Params
from posttrain.spec.field_types import checked_by

_MAX_TIMEOUTS_PER_BATCH = 40  # the time limit of a batch, in time limits of a row
TIMEOUT_REASON = "the pattern timed out"


def compile_pattern(pattern: str) -> "re.Pattern[str]":
    """Compile a pattern with the standard library, to check it and to list its groups."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"not a valid regular expression: {error}") from None


class RegexParams(Params):
    pattern: Annotated[str, Field(min_length=1, max_length=2000), checked_by(compile_pattern)] = Field(
        description="The regular expression, in Python's syntax. Set flags inline, such as (?s) or (?i).",
    )
    timeout_seconds: float = Field(
        default=0.25, gt=0, le=60, description="Time limit of the search in one row, in seconds."
    )


def search_texts(
    params: RegexParams, texts: Sequence[str | None], search: Callable[[Any, str, float], Any]
) -> tuple[list[Any], frozenset[int]]:
    """The result of `search(pattern, text, seconds)` for each text, and the rows that timed out."""
    import regex

    pattern = regex.compile(params.pattern)
    end = time.monotonic() + _MAX_TIMEOUTS_PER_BATCH * params.timeout_seconds
    results: list[Any] = []
    timed_out: set[int] = set()
    for row, text in enumerate(texts):
        seconds = min(params.timeout_seconds, end - time.monotonic())
        try:
            if seconds <= 0:
                raise TimeoutError
            results.append(None if text is None else search(pattern, text, seconds))
        except TimeoutError:
            results.append(None)
            timed_out.add(row)
    return results, frozenset(timed_out)
