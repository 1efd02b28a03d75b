"""Parses JSONPath queries with filters, and checks that their comparisons are well-typed.

An invalid query raises ValueError with the position.
"""

import re

from posttrain.runtime.rewards.jsonpath.query_ast import (
    FUNCTIONS,
    Comparison,
    Function,
    Literal,
    LogicalExpression,
    Operand,
    Query,
    Test,
)
from posttrain.runtime.rewards.jsonpath.query_parser import QueryParser

MAX_DEPTH = 32
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
FUNCTION = re.compile(r"([a-z][a-z_0-9]*)\(")
COMPARISON_OPERATOR = re.compile(r"==|!=|<=|>=|<|>")
KEYWORDS = {"true": True, "false": False, "null": None}
KEYWORD = re.compile(r"(true|false|null)(?![\w])")


def parse_query(text: str) -> Query:
    reader = QueryParser(text, parse_condition)
    reader.expect("$")
    query = reader.parse_query(from_root=True)
    if reader.position < len(text):
        reader.fail("invalid segment of a query")
    return query


def parse_condition(reader: QueryParser) -> Test:
    reader.depth += 1
    if reader.depth > MAX_DEPTH:
        reader.fail("nested too deeply")
    parts = [_parse_and(reader)]
    while _take_operator(reader, "||"):
        parts.append(_parse_and(reader))
    reader.depth -= 1
    return parts[0] if len(parts) == 1 else LogicalExpression("any", tuple(parts))


def _parse_and(reader: QueryParser) -> Test:
    parts = [_parse_basic(reader)]
    while _take_operator(reader, "&&"):
        parts.append(_parse_basic(reader))
    return parts[0] if len(parts) == 1 else LogicalExpression("all", tuple(parts))


def _take_operator(reader: QueryParser, mark: str) -> bool:
    start = reader.position
    reader.skip_blank()
    if reader.take(mark):
        reader.skip_blank()
        return True
    reader.position = start
    return False


def _parse_basic(reader: QueryParser) -> Test:
    if reader.text.startswith("!", reader.position) and not reader.text.startswith("!=", reader.position):
        reader.position += 1
        reader.skip_blank()
        inner = _parse_group(reader) if reader.take("(") else _check_test(reader, _parse_operand(reader))
        return LogicalExpression("not", (inner,))
    if reader.take("("):
        return _parse_group(reader)
    left = _parse_operand(reader)
    start = reader.position
    reader.skip_blank()
    operator = reader.match(COMPARISON_OPERATOR)
    if operator is None:
        reader.position = start
        return _check_test(reader, left)
    reader.skip_blank()
    return Comparison(
        operator[0], _check_comparable(reader, left), _check_comparable(reader, _parse_operand(reader))
    )


def _parse_group(reader: QueryParser) -> Test:
    reader.skip_blank()
    inner = parse_condition(reader)
    reader.skip_blank()
    reader.expect(")")
    return inner


def _parse_operand(reader: QueryParser) -> Operand:
    here = reader.text[reader.position : reader.position + 1]
    if here in ("@", "$"):
        reader.position += 1
        return reader.parse_query(from_root=here == "$")
    if here in ("'", '"') and here:
        return Literal(reader.parse_string())
    if word := reader.match(KEYWORD):
        return Literal(KEYWORDS[word[1]])
    if number := reader.match(NUMBER):
        return Literal(float(number[0]) if set(number[0]) & set(".eE") else int(number[0]))
    return _parse_function(reader)


def _parse_function(reader: QueryParser) -> Function:
    match = reader.match(FUNCTION)
    if match is None:
        reader.fail("expected a value, a query or a function")
    name = match[1]
    signature = FUNCTIONS[name][0] if name in FUNCTIONS else reader.fail(f"unknown function `{name}`")
    arguments: list[Operand] = []
    reader.skip_blank()
    while not reader.take(")"):
        if arguments:
            reader.expect(",")
            reader.skip_blank()
        arguments.append(_parse_argument(reader))
        reader.skip_blank()
    if len(arguments) != len(signature):
        reader.fail(f"`{name}` takes {len(signature)} arguments, not {len(arguments)}")
    for kind, argument in zip(signature, arguments, strict=True):
        if not (isinstance(argument, Query) if kind == "n" else _is_value(argument)):
            reader.fail(f"invalid type of an argument of `{name}`")
    return Function(name, tuple(arguments))


def _parse_argument(reader: QueryParser) -> Operand:
    """An operand, or a logical expression as an argument."""
    start = reader.position
    operand = _parse_operand(reader)
    after = reader.position
    reader.skip_blank()
    if reader.text[reader.position : reader.position + 1] in (",", ")"):
        reader.position = after
        return operand
    reader.position = start
    return parse_condition(reader)


def _is_value(operand: Operand) -> bool:
    match operand:
        case Literal():
            return True
        case Query():
            return operand.singular
        case Function(name):
            return FUNCTIONS[name][1] == "v"
        case _:
            return False


def _check_comparable(reader: QueryParser, operand: Operand) -> Operand:
    return operand if _is_value(operand) else reader.fail("only single values can be compared")


def _check_test(reader: QueryParser, operand: Operand) -> Test:
    match operand:
        case Query():
            return operand
        case Function(name) if FUNCTIONS[name][1] == "t":
            return operand
        case _:
            return reader.fail("a value is not a condition: compare it")
