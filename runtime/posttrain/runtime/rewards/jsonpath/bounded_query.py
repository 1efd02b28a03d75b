"""JSONPath queries with limits that count work, not time: a result does not depend on the machine's load.

The library `jsonpath-rfc9535` parses and evaluates. Its segments and expressions are subclassed. The segments
count the values that a query visits, also those inside filters, and walk deep documents without recursion.
The expressions correct the library where it differs from RFC 9535.
"""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any, Never, cast

from jsonpath_rfc9535 import JSONPathEnvironment, JSONPathError, JSONPathNode, JSONPathQuery
from jsonpath_rfc9535.exceptions import JSONPathSyntaxError
from jsonpath_rfc9535.filter_expressions import (
    ComparisonExpression,
    Expression,
    FilterContext,
    FilterExpressionLiteral,
    FunctionExtension,
    LogicalExpression,
    PrefixExpression,
    RelativeFilterQuery,
)
from jsonpath_rfc9535.function_extensions import ExpressionType
from jsonpath_rfc9535.node import JSONPathNodeList
from jsonpath_rfc9535.parse import Parser
from jsonpath_rfc9535.segments import (
    JSONPathChildSegment,
    JSONPathRecursiveDescentSegment,
    JSONPathSegment,
)
from jsonpath_rfc9535.selectors import IndexSelector, JSONPathSelector, NameSelector
from jsonpath_rfc9535.tokens import TokenStream

from posttrain.runtime.rewards.jsonpath.regex_functions import RegexFunction

MAX_NODES = 20_000
MAX_CHARACTERS = 200_000  # that `match` and `search` read in one evaluation
MAX_DEPTH = 64  # of nested filters, parentheses, functions and chained operators
MAX_SEGMENTS = 64  # of one query: each is a generator that reads the one before it


# The library accepts these as sides of a comparison: `@.a == @.b == @.c`, `!@.a == 1`.
_CONDITIONS = (ComparisonExpression, LogicalExpression, PrefixExpression)


class QueryLimitError(ValueError):
    """The evaluation of a query exceeds a limit."""


class BoundedEnvironment(JSONPathEnvironment):
    """The environment of one query. Its counters belong to one evaluation at a time."""

    def __init__(self) -> None:
        self.parser_class = _BoundedParser
        super().__init__()
        self.visited = self.characters = 0

    def setup_function_extensions(self) -> None:
        super().setup_function_extensions()
        self.function_extensions["match"] = RegexFunction(r"\A(?:{})\z", self.read)
        self.function_extensions["search"] = RegexFunction("{}", self.read)

    def visit(self, count: int = 1) -> None:
        self.visited += count
        if self.visited > MAX_NODES:
            raise QueryLimitError(f"the query visits more than {MAX_NODES:,} values")

    def read(self, count: int) -> None:
        self.characters += count
        if self.characters > MAX_CHARACTERS:
            raise QueryLimitError(f"`match` and `search` read more than {MAX_CHARACTERS:,} characters")


def parse_query(text: str) -> JSONPathQuery:
    """Parse a query. Raises ValueError with the position."""
    try:
        return BoundedEnvironment().compile(text)
    except JSONPathError as error:
        start = error.token.index if error.token else 0
        raise ValueError(f"`{text[start : start + 30] or text[-30:]}`: {error.args[0]}") from None
    except OverflowError:
        raise ValueError(f"`{text[:30]}`: a number is too large") from None


def find_values(query: JSONPathQuery, value: Any) -> list[Any]:
    """The values that a query finds, in document order. Raises QueryLimitError."""
    environment = cast(BoundedEnvironment, query.env)
    environment.visited = environment.characters = 0
    return [node.value for node in query.finditer(value)]


class _BoundedParser(Parser):
    def __init__(self, *, env: JSONPathEnvironment) -> None:
        super().__init__(env=env)
        self._depth = 0

    def parse_query(self, stream: TokenStream, *, in_filter: bool = False) -> Iterable[JSONPathSegment]:
        for number, segment in enumerate(super().parse_query(stream, in_filter=in_filter), start=1):
            if number > MAX_SEGMENTS:
                self._fail(stream, f"more than {MAX_SEGMENTS} segments")
            descends = isinstance(segment, JSONPathRecursiveDescentSegment)
            kind = _DescendantSegment if descends else _ChildSegment
            yield kind(env=segment.env, token=segment.token, selectors=segment.selectors)

    def parse_filter_expression(
        self, stream: TokenStream, precedence: int = Parser.PRECEDENCE_LOWEST
    ) -> Expression:
        with self._nested(stream):
            return super().parse_filter_expression(stream, precedence)

    def parse_function_extension(self, stream: TokenStream) -> Expression:
        with self._nested(stream):
            return super().parse_function_extension(stream)

    def parse_infix_expression(self, stream: TokenStream, left: Expression) -> Expression:
        found = super().parse_infix_expression(stream, left)
        if isinstance(found, ComparisonExpression):
            if any(isinstance(side, _CONDITIONS) for side in (found.left, found.right)):
                self._fail(stream, "a condition is not a value: compare values, and join conditions with &&")
            return _JsonComparison(found.token, found.left, found.operator, found.right)
        logical = cast(LogicalExpression, found)
        self._check_condition(stream, logical.left)
        self._check_condition(stream, logical.right)
        return found

    def parse_prefix_expression(self, stream: TokenStream) -> Expression:
        found = cast(PrefixExpression, super().parse_prefix_expression(stream))
        self._check_condition(stream, found.right)
        return found

    def _check_condition(self, stream: TokenStream, found: Expression) -> None:
        """The library checks this only for a whole filter."""
        function = self.env.function_extensions[found.name] if isinstance(found, FunctionExtension) else None
        is_value = function is not None and function.return_type == ExpressionType.VALUE
        if is_value or isinstance(found, FilterExpressionLiteral):
            self._fail(stream, "a value is not a condition: compare it")

    def parse_relative_query(self, stream: TokenStream) -> Expression:
        found = cast(RelativeFilterQuery, super().parse_relative_query(stream))
        return _RelativeQuery(found.token, found.query)

    @contextmanager
    def _nested(self, stream: TokenStream) -> Generator[None]:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._fail(stream, "nested too deeply")
        yield
        self._depth -= 1

    def _fail(self, stream: TokenStream, reason: str) -> Never:
        raise JSONPathSyntaxError(reason, token=stream.current)


class _ChildSegment(JSONPathChildSegment):
    def resolve(self, nodes: Iterable[JSONPathNode]) -> Iterable[JSONPathNode]:
        for node in nodes:
            yield from _select(self, node)


class _DescendantSegment(JSONPathRecursiveDescentSegment):
    def resolve(self, nodes: Iterable[JSONPathNode]) -> Iterable[JSONPathNode]:
        environment = cast(BoundedEnvironment, self.env)
        for start in nodes:
            waiting = [start]
            while waiting:
                environment.visit()
                node = waiting.pop()
                yield from _select(self, node)
                waiting += [
                    node.new_child(value, key, node) for key, value in reversed(_children(node.value))
                ]


def _select(segment: JSONPathSegment, node: JSONPathNode) -> Iterable[JSONPathNode]:
    environment = cast(BoundedEnvironment, segment.env)
    for selector in segment.selectors:
        environment.visit(_tested_values(selector, node))
        yield from selector.resolve(node)


def _tested_values(selector: JSONPathSelector, node: JSONPathNode) -> int:
    """The number of values that a selector tests or selects, at most."""
    if isinstance(selector, NameSelector | IndexSelector) or not isinstance(node.value, dict | list):
        return 1
    return 1 + len(cast(list[Any], node.value))


def _children(value: object) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        return list(cast(dict[str, Any], value).items())
    return list(enumerate(cast(list[Any], value))) if isinstance(value, list) else []


class _RelativeQuery(RelativeFilterQuery):
    def evaluate(self, context: FilterContext) -> object:
        # The library returns a scalar itself: `?@` would be false for 0, and `count(@)` would fail. In
        # filters of the query, `$` would be the current value.
        start = JSONPathNode(value=context.current, location=(), parent=None, root=context.root)
        nodes: Iterable[JSONPathNode] = [start]
        for segment in self.query.segments:
            nodes = segment.resolve(nodes)
        return JSONPathNodeList(nodes)


class _JsonComparison(ComparisonExpression):
    def evaluate(self, context: FilterContext) -> bool:
        left, right = (_single_value(side.evaluate(context)) for side in (self.left, self.right))
        if isinstance(left, dict | list) and type(left) is type(right):
            equal = _is_equal(left, right, cast(BoundedEnvironment, context.env))
            return equal == (self.operator != "!=") and self.operator not in ("<", ">")
        sides = (FilterExpressionLiteral(self.token, side) for side in (left, right))
        return ComparisonExpression(self.token, next(sides), self.operator, next(sides)).evaluate(context)


def _single_value(found: object) -> object:
    return found[0].value if isinstance(found, JSONPathNodeList) and len(found) == 1 else found


def _is_equal(left: Any, right: Any, environment: BoundedEnvironment) -> bool:
    """JSON equality: 1 equals 1.0, and true does not equal 1. Deep values are compared without recursion."""
    waiting = [(left, right)]
    while waiting:
        environment.visit()
        one, two = waiting.pop()
        if isinstance(one, list) and isinstance(two, list):
            first, second = cast(list[Any], one), cast(list[Any], two)
            if len(first) != len(second):
                return False
            waiting += zip(first, second, strict=True)
        elif isinstance(one, dict) and isinstance(two, dict):
            these, those = cast(dict[str, Any], one), cast(dict[str, Any], two)
            if these.keys() != those.keys():
                return False
            waiting += ((these[key], those[key]) for key in these)
        elif isinstance(one, bool) or isinstance(two, bool):
            if one is not two:
                return False
        elif one != two:
            return False
    return True
