"""The work that a chat template may do in one rendering, and what it spends.

The sizes of results that can be much larger than the operands are estimated before they are computed.
"""

import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from types import GeneratorType
from typing import Any

from jinja2.utils import Namespace

from posttrain.runtime.errors import StepError

# The limit of one rendering: a fixed part, and a part for each character or item of its input.
_BASE_UNITS, _UNITS_PER_INPUT = 10_000_000, 200
_MAX_INTEGER_BITS = 4096
_MAX_WIDTH = 100_000
_LONG_NUMBER = re.compile(r"\d{6}")
_NESTED_FIELD = re.compile(r"\{[^{}]*:[^{}]*\{")


class TemplateLimitError(StepError):
    """The template does too much work for one conversation."""


def too_much(what: str) -> TemplateLimitError:
    return TemplateLimitError(
        f"the chat template {what}",
        "fix the template: look for a loop, a repetition or a recursion that grows without need",
    )


class Budget(threading.local):
    """The work that is left to the rendering in this thread."""

    left: int = _BASE_UNITS

    def __init__(self) -> None:
        # The sizes of containers by id. The containers are referenced, so that no id is used again.
        self.sizes: dict[int, tuple[Any, int]] = {}

    def reset(self, given: Any = None) -> None:
        self.sizes = {}
        self.left = _BASE_UNITS + _UNITS_PER_INPUT * self._size(given)

    def spend(self, units: int) -> None:
        self.left -= units
        if self.left < 0:
            raise too_much("does more work for one conversation than its length can explain")

    def charge(self, value: Any) -> Any:
        """Spend the size of a value, and return the value."""
        if isinstance(value, GeneratorType):
            return self._charged_items(value)
        self.spend(1 + self._size(value))
        return value

    def _charged_items(self, values: Iterable[Any]) -> Iterator[Any]:
        for value in values:
            yield self.charge(value)

    def _size(self, value: Any, depth: int = 0) -> int:
        """The characters and items of a value. Shared parts count as often as they occur."""
        if isinstance(value, str | bytes):
            return len(value)
        if isinstance(value, Namespace):
            # Its text contains the texts of its values, which can contain it.
            raise TemplateLimitError("the chat template outputs a namespace", "output its values")
        if isinstance(value, Mapping):
            parts: Iterable[Any] = [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple | set | frozenset):
            parts = value
        else:
            return 1
        known = self.sizes.get(id(value))
        if known is not None and len(known[0]) == len(value):
            return known[1]
        if depth > 200:
            raise too_much("nests values more than 200 levels deep")
        size = 1 + sum(self._size(part, depth + 1) for part in parts)
        self.sizes[id(value)] = value, size
        return size


def check_product(operator: str, left: Any, right: Any, budget: Budget) -> None:
    """Check the size of a product before it is computed."""
    if isinstance(left, int) and isinstance(right, int):
        bits = left.bit_length() * right if operator == "**" else left.bit_length() + right.bit_length()
        if bits > _MAX_INTEGER_BITS:
            raise too_much(f"computes an integer of more than {_MAX_INTEGER_BITS} bits")
        return
    for value, count in ((left, right), (right, left)):
        if isinstance(value, str | bytes | list | tuple) and isinstance(count, int):
            budget.spend(max(0, len(value) * count))


def check_arguments(name: str, values: Sequence[Any], budget: Budget, *, widths: bool) -> None:
    """Check the arguments of a function whose result can be much larger than them."""
    if widths and any(isinstance(value, int) and value > _MAX_WIDTH for value in values):
        raise too_much(f"has a number greater than {_MAX_WIDTH} as a width or a count")
    if any(isinstance(value, Namespace) for value in values):
        raise TemplateLimitError("the chat template outputs a namespace", "output its values")
    texts = [value for value in values if isinstance(value, str | bytes)]
    if name in ("format", "format_map") and texts and _formats_widely(str(texts[0]), texts[1:]):
        raise too_much("formats a text with a width of more than 5 digits")
    if name in ("replace", "translate", "expandtabs", "indent", "join") and texts:
        budget.spend(_estimated_size(name, values))


def _formats_widely(text: str, others: Sequence[str | bytes]) -> bool:
    if _LONG_NUMBER.search(text):
        return True
    # The width can be an argument, also one that is a text.
    nested = _NESTED_FIELD.search(text) is not None
    return nested and any(isinstance(other, str) and _LONG_NUMBER.match(other.strip()) for other in others)


def _estimated_size(name: str, values: Sequence[Any]) -> int:
    """The size of the result of these functions, or a bound on it. The first value is the text."""
    first = values[0]
    others = [value for value in values[1:] if not isinstance(value, bool)]
    if name == "translate":
        tables = [value for value in others if isinstance(value, Mapping)]
        longest = max((len(v) for t in tables for v in t.values() if isinstance(v, str)), default=1)
        return len(first) * longest
    if name == "join":
        separator, items = (
            (first, others[0]) if isinstance(first, str) else (others[0] if others else "", first)
        )
        return len(separator) * len(items) if isinstance(items, Sized) and isinstance(separator, str) else 0
    widths = [
        len(value) if isinstance(value, str) else value for value in others if isinstance(value, str | int)
    ]
    if name == "replace":
        old, new = [*[value for value in others if isinstance(value, str)], "", ""][:2]
        return (first.count(old) if isinstance(first, str) else 0) * len(new)
    marks = first.count("\n") + 1 if name == "indent" else first.count("\t")
    return marks * max(widths, default=8)
