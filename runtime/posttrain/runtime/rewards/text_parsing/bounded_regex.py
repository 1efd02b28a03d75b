"""Regular expressions with a limit of CPU time, for the ops `regex` and `matches`.

A pattern is checked when the recipe is compiled. At run time each search has a limit of CPU time, so that a
pattern with catastrophic backtracking costs a bounded time. The limit counts the CPU time of the search
alone: neither the load of the machine nor other threads change a result.
"""

import re
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from posttrain.spec.extension import Params
from posttrain.spec.field_types import checked_by

_MAX_ATTEMPTS = 12  # each with twice the time of the one before
_CLOCK_TOLERANCE = 0.98  # the two clocks start at slightly different times
TIMEOUT_REASON = "the pattern exceeded its CPU time"
LOST_REASON = "the process was too busy to search the text"


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
    max_cpu_seconds: float = Field(
        default=0.25,
        gt=0,
        le=60,
        description="Limit of CPU time for the search in one row, in seconds. Beyond it, there is no match.",
    )


class StarvedError(Exception):
    """Other threads of this process take so much CPU time that a search cannot be timed."""


@dataclass(frozen=True, slots=True)
class SearchResults:
    """The result for each row. It is None in the rows beyond the limit and in those without an outcome."""

    values: list[Any]
    beyond_limit: frozenset[int]
    lost: frozenset[int]

    def reasons(self) -> list[str | None]:
        if not self.beyond_limit | self.lost:
            return []
        texts = dict.fromkeys(self.beyond_limit, TIMEOUT_REASON) | dict.fromkeys(self.lost, LOST_REASON)
        return [texts.get(row) for row in range(len(self.values))]


def search_texts(
    params: RegexParams, texts: Sequence[str | None], search: Callable[[Any, str, float], Any]
) -> SearchResults:
    """The results of `search(pattern, text, seconds)` for each text."""
    import regex

    pattern = regex.compile(params.pattern)
    values: list[Any] = []
    failed: dict[type[Exception], set[int]] = {TimeoutError: set(), StarvedError: set()}
    for row, text in enumerate(texts):
        try:
            values.append(
                None if text is None else search_text(pattern, text, search, params.max_cpu_seconds)
            )
        except (TimeoutError, StarvedError) as error:
            values.append(None)
            failed[type(error)].add(row)
    return SearchResults(values, frozenset(failed[TimeoutError]), frozenset(failed[StarvedError]))


def search_text(
    pattern: Any, text: str, search: Callable[[Any, str, float], Any], max_cpu_seconds: float
) -> Any:
    """The result of a search. Raises TimeoutError if it takes more CPU time, StarvedError if that is unknown.

    The timeout of the library `regex` counts the CPU time of the whole process. If other threads have used it
    up, the search is repeated with a longer one.
    """
    for attempt in range(_MAX_ATTEMPTS):
        start = time.thread_time()
        result, finished = None, True
        try:
            result = search(pattern, text, max_cpu_seconds * 2**attempt)
        except TimeoutError:
            finished = False
        used = time.thread_time() - start
        if used >= max_cpu_seconds * _CLOCK_TOLERANCE:
            raise TimeoutError
        if finished:
            return result
    raise StarvedError
