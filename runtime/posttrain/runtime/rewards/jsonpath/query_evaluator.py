"""Evaluates JSONPath queries."""

from collections.abc import Iterator
from typing import Any, cast

from posttrain.runtime.rewards.jsonpath.query_ast import (
    Comparison,
    Filter,
    Function,
    Literal,
    LogicalExpression,
    Operand,
    Query,
    Selector,
    Slice,
    Test,
    Wildcard,
)

MAX_NODES = 20_000
PATTERN_SECONDS = 0.25
MAX_PATTERN_LENGTH = 500


class TooManyNodesError(ValueError):
    """A query visits more values than the limit."""


class Nothing:
    """The result of a query without values, in a comparison."""


NOTHING = Nothing()


def find_values(query: Query, value: Any) -> list[Any]:
    """The values that a query finds, in document order. Raises TooManyNodesError."""
    return list(QueryEvaluator(value).nodes(query, value))


class QueryEvaluator:
    def __init__(self, root: Any):
        self.root = root
        self.visited = 0

    def nodes(self, query: Query, here: Any) -> list[Any]:
        nodes = [self.root if query.from_root else here]
        for segment in query.segments:
            starts = (
                [inner for node in nodes for inner in self.descendants(node)] if segment.descendant else nodes
            )
            nodes = [
                hit
                for node in starts
                for selector in segment.selectors
                for hit in self.select(selector, node)
            ]
        return nodes

    def count_visit(self) -> None:
        self.visited += 1
        if self.visited > MAX_NODES:
            raise TooManyNodesError(f"the query visits more than {MAX_NODES:,} values")

    def descendants(self, node: Any) -> Iterator[Any]:
        """The node and its descendants, parents before children."""
        waiting = [node]
        while waiting:
            self.count_visit()
            here = waiting.pop()
            yield here
            waiting += reversed(_children(here))

    def select(self, selector: Selector, node: Any) -> Iterator[Any]:
        self.count_visit()
        match selector:
            case str() if isinstance(node, dict) and selector in node:
                yield cast(dict[str, Any], node)[selector]
            case int() if isinstance(node, list) and -len(cast(list[Any], node)) <= selector < len(
                cast(list[Any], node)
            ):
                yield node[selector]
            case Wildcard():
                yield from _children(node)
            case Slice() if isinstance(node, list):
                yield from _slice_list(cast(list[Any], node), selector)
            case Filter(test):
                for child in _children(node):
                    self.count_visit()
                    if self.is_true(test, child):
                        yield child
            case _:
                return

    def is_true(self, test: Test | Operand, here: Any) -> bool:
        match test:
            case LogicalExpression("any", parts):
                return any(self.is_true(part, here) for part in parts)
            case LogicalExpression("all", parts):
                return all(self.is_true(part, here) for part in parts)
            case LogicalExpression(_, (part,)):
                return not self.is_true(part, here)
            case Comparison(operator, left, right):
                return _compare(operator, self.value(left, here), self.value(right, here))
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


def _slice_list(items: list[Any], part: Slice) -> list[Any]:
    return [] if part.step == 0 else items[part.start : part.end : part.step]


def _length(value: Any) -> Any:
    return len(value) if isinstance(value, str | list | dict) else NOTHING


def _compare(operator: str, left: Any, right: Any) -> bool:
    match operator:
        case "==":
            return _is_equal(left, right)
        case "!=":
            return not _is_equal(left, right)
        case "<" | ">":
            return _is_less(left, right) if operator == "<" else _is_less(right, left)
        case _:
            less = _is_less(left, right) if operator == "<=" else _is_less(right, left)
            return less or _is_equal(left, right)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_less(left: Any, right: Any) -> bool:
    both = (_is_number(left) and _is_number(right)) or (isinstance(left, str) and isinstance(right, str))
    return both and left < right


def _is_equal(left: Any, right: Any) -> bool:
    """JSON equality: 1 equals 1.0, and true does not equal 1."""
    if isinstance(left, list) and isinstance(right, list):
        one, two = cast(list[Any], left), cast(list[Any], right)
        return len(one) == len(two) and all(map(_is_equal, one, two))
    if isinstance(left, dict) and isinstance(right, dict):
        first, second = cast(dict[str, Any], left), cast(dict[str, Any], right)
        return first.keys() == second.keys() and all(_is_equal(first[key], second[key]) for key in first)
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return left == right


def _matches(name: str, text: Any, pattern: Any) -> bool:
    """Whether a pattern matches. An invalid pattern, and one that times out, match nothing."""
    import regex

    if not isinstance(text, str) or not isinstance(pattern, str) or len(pattern) > MAX_PATTERN_LENGTH:
        return False
    try:
        compiled = regex.compile(_translate_pattern(pattern))
        method = compiled.fullmatch if name == "match" else compiled.search
        return method(text, timeout=PATTERN_SECONDS) is not None
    except (regex.error, TimeoutError):
        return False


def _translate_pattern(pattern: str) -> str:
    """Translate an RFC 9485 pattern to Python's syntax. Its dot matches neither \\n nor \\r."""
    pieces: list[str] = []
    at, in_class = 0, False
    while at < len(pattern):
        piece = pattern[at : at + 2] if pattern[at] == "\\" else pattern[at]
        in_class = (in_class or piece == "[") and piece != "]"
        pieces.append("[^\\n\\r]" if piece == "." and not in_class else piece)
        at += len(piece)
    return "".join(pieces)
