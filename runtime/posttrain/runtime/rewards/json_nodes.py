"""The values that a JSON query finds."""

from collections.abc import Iterator
from typing import Any, cast

from posttrain.runtime.rewards.json_query import (
    Compare,
    Every,
    Filter,
    Function,
    Literal,
    Logic,
    Operand,
    Query,
    Selector,
    Slice,
    Test,
)

NODES_AT_MOST = 20_000
PATTERN_SECONDS = 0.25
PATTERN_AT_MOST = 500


class TooMany(ValueError):
    """More values than a query may look at."""


class Nothing:
    """What a query that found nothing compares as."""


NOTHING = Nothing()


def found(query: Query, value: Any) -> list[Any]:
    """In order. Raises TooMany."""
    return list(Search(value).nodes(query, value))


class Search:
    def __init__(self, root: Any):
        self.root = root
        self.seen = 0

    def nodes(self, query: Query, here: Any) -> list[Any]:
        nodes = [self.root if query.from_root else here]
        for segment in query.segments:
            starts = [inner for node in nodes for inner in self.descendants(node)] if segment.deep else nodes
            nodes = [
                hit for node in starts for selector in segment.selectors for hit in self.hits(selector, node)
            ]
        return nodes

    def count(self) -> None:
        self.seen += 1
        if self.seen > NODES_AT_MOST:
            raise TooMany(f"a query that looks at more than {NODES_AT_MOST:,} values")

    def descendants(self, node: Any) -> Iterator[Any]:
        """The node and all in it, each before what it holds."""
        waiting = [node]
        while waiting:
            self.count()
            here = waiting.pop()
            yield here
            waiting += reversed(_children(here))

    def hits(self, selector: Selector, node: Any) -> Iterator[Any]:
        self.count()
        match selector:
            case str() if isinstance(node, dict) and selector in node:
                yield cast(dict[str, Any], node)[selector]
            case int() if isinstance(node, list) and -len(cast(list[Any], node)) <= selector < len(
                cast(list[Any], node)
            ):
                yield node[selector]
            case Every():
                yield from _children(node)
            case Slice() if isinstance(node, list):
                yield from _sliced(cast(list[Any], node), selector)
            case Filter(test):
                for child in _children(node):
                    self.count()
                    if self.true(test, child):
                        yield child
            case _:
                return

    def true(self, test: Test | Operand, here: Any) -> bool:
        match test:
            case Logic("any", parts):
                return any(self.true(part, here) for part in parts)
            case Logic("all", parts):
                return all(self.true(part, here) for part in parts)
            case Logic(_, (part,)):
                return not self.true(part, here)
            case Compare(operator, left, right):
                return _compared(operator, self.value(left, here), self.value(right, here))
            case Query():
                return bool(self.nodes(test, here))
            case Function(name, (of, pattern)):
                return _matches(name, self.value(of, here), self.value(pattern, here))
            case _:
                return False

    def value(self, operand: Operand, here: Any) -> Any:
        match operand:
            case Literal(value):
                return value
            case Query():
                nodes = self.nodes(operand, here)
                return nodes[0] if nodes else NOTHING
            case Function("length", (of,)):
                return _length(self.value(of, here))
            case Function("count", (Query() as query,)):
                return len(self.nodes(query, here))
            case Function("value", (Query() as query,)):
                nodes = self.nodes(query, here)
                return nodes[0] if len(nodes) == 1 else NOTHING
            case _:
                return NOTHING


def _children(node: Any) -> list[Any]:
    if isinstance(node, dict):
        return list(cast(dict[str, Any], node).values())
    return cast(list[Any], node) if isinstance(node, list) else []


def _sliced(items: list[Any], part: Slice) -> list[Any]:
    return [] if part.step == 0 else items[part.start : part.end : part.step]


def _length(value: Any) -> Any:
    return len(value) if isinstance(value, str | list | dict) else NOTHING


def _compared(operator: str, left: Any, right: Any) -> bool:
    match operator:
        case "==":
            return _same(left, right)
        case "!=":
            return not _same(left, right)
        case "<" | ">":
            return _less(left, right) if operator == "<" else _less(right, left)
        case _:
            less = _less(left, right) if operator == "<=" else _less(right, left)
            return less or _same(left, right)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _less(left: Any, right: Any) -> bool:
    both = (_number(left) and _number(right)) or (isinstance(left, str) and isinstance(right, str))
    return both and left < right


def _same(left: Any, right: Any) -> bool:
    """As JSON: 1 is 1.0, and true is no 1."""
    if isinstance(left, list) and isinstance(right, list):
        one, two = cast(list[Any], left), cast(list[Any], right)
        return len(one) == len(two) and all(map(_same, one, two))
    if isinstance(left, dict) and isinstance(right, dict):
        first, second = cast(dict[str, Any], left), cast(dict[str, Any], right)
        return first.keys() == second.keys() and all(_same(first[key], second[key]) for key in first)
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return left == right


def _matches(name: str, text: Any, pattern: Any) -> bool:
    """A pattern that is none, or that takes too long, matches nothing."""
    import regex

    if not isinstance(text, str) or not isinstance(pattern, str) or len(pattern) > PATTERN_AT_MOST:
        return False
    try:
        made = regex.compile(_translated(pattern))
        tried = made.fullmatch if name == "match" else made.search
        return tried(text, timeout=PATTERN_SECONDS) is not None
    except (regex.error, TimeoutError):
        return False


def _translated(pattern: str) -> str:
    """RFC 9485 in Python's syntax: its dot leaves out both characters that end a line."""
    made: list[str] = []
    at, in_class = 0, False
    while at < len(pattern):
        piece = pattern[at : at + 2] if pattern[at] == "\\" else pattern[at]
        in_class = (in_class or piece == "[") and piece != "]"
        made.append("[^\\n\\r]" if piece == "." and not in_class else piece)
        at += len(piece)
    return "".join(made)
