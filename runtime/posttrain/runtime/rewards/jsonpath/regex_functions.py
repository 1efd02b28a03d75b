"""The functions `match` and `search` of JSONPath, with a search time that is linear in the text.

The engine is RE2, which PyArrow contains. It does not backtrack, so no time limit is necessary.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from jsonpath_rfc9535.function_extensions import ExpressionType, FilterFunction

MAX_PATTERN_LENGTH = 500


class PatternLimitError(ValueError):
    """RE2 does not support a valid pattern, such as one with more than 1,000 repetitions."""


class RegexFunction(FilterFunction):
    """Whether a text matches a pattern (RFC 9485, with the further syntax of RE2). RFC 9535 demands that an
    invalid pattern matches nothing.

    `form` is the regular expression around the pattern. `read` is called with the length of each text.
    """

    def __init__(self, form: str, read: Callable[[int], None]) -> None:
        self._form = form
        self._read = read

    @property
    def arg_types(self) -> list[ExpressionType]:
        return [ExpressionType.VALUE, ExpressionType.VALUE]

    @property
    def return_type(self) -> ExpressionType:
        return ExpressionType.LOGICAL

    def __call__(self, text: object, pattern: object) -> bool:
        import pyarrow as pa

        if not isinstance(text, str) or not isinstance(pattern, str):
            return False
        if len(pattern) > MAX_PATTERN_LENGTH:
            raise PatternLimitError(f"a pattern is longer than {MAX_PATTERN_LENGTH} characters")
        self._read(len(text))
        expression = self._form.format(_translate_pattern(pattern))
        try:
            compute: Any = import_module("pyarrow.compute")  # its functions are generated at import
            return compute.match_substring_regex(pa.scalar(_encodable(text)), expression).as_py()
        except pa.ArrowInvalid as error:
            if not _is_valid(pattern):
                return False
            reason = str(error).removeprefix("Invalid regular expression: ")
            raise PatternLimitError(f"the pattern `{pattern[:40]}` is not supported: {reason[:80]}") from None


def _is_valid(pattern: str) -> bool:
    import regex

    try:
        regex.compile(pattern)
        return True
    except (regex.error, OverflowError, RecursionError):
        return False


def _encodable(text: str) -> str:
    """Replace lone surrogates, which JSON permits and UTF-8 does not."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _translate_pattern(pattern: str) -> str:
    """Translate a pattern to RE2's syntax. Its dot matches neither \\n nor \\r."""
    pieces: list[str] = []
    at, in_class = 0, False
    while at < len(pattern):
        piece = pattern[at : at + 2] if pattern[at] == "\\" else pattern[at]
        in_class = (in_class or piece == "[") and piece != "]"
        pieces.append("[^\\n\\r]" if piece == "." and not in_class else piece)
        at += len(piece)
    return "".join(pieces)
