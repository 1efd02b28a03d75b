"""A JSON query with its filters: their grammar, and which comparisons make sense.

A text that is no query, or that compares what cannot be compared, raises ValueError and says where.
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
        reader.fail("this is no step of a query")
    return query


def parse_condition(reader: QueryParser) -> Test:
    reader.depth += 1
    if reader.depth > MAX_DEPTH:
        reader.fail("nested too deep")
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
    found = reader.match(FUNCTION)
    if found is None:
        reader.fail("a value, a query or a function was expected")
    takes = FUNCTIONS[found[1]][0] if found[1] in FUNCTIONS else reader.fail(f"no function `{found[1]}`")
    arguments: list[Operand] = []
    reader.skip_blank()
    while not reader.take(")"):
        if arguments:
            reader.expect(",")
            reader.skip_blank()
        arguments.append(_parse_argument(reader))
        reader.skip_blank()
    if len(arguments) != len(takes):
        reader.fail(f"`{found[1]}` takes {len(takes)}")
    for kind, argument in zip(takes, arguments, strict=True):
        if not (isinstance(argument, Query) if kind == "n" else _is_value(argument)):
            reader.fail(f"`{found[1]}` does not take this")
    return Function(found[1], tuple(arguments))


def _parse_argument(reader: QueryParser) -> Operand:
    """A value, or a whole condition where a function would take one."""
    start = reader.position
    found = _parse_operand(reader)
    after = reader.position
    reader.skip_blank()
    if reader.text[reader.position : reader.position + 1] in (",", ")"):
        reader.position = after
        return found
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
    return operand if _is_value(operand) else reader.fail("this is no single value, to be compared")


def _check_test(reader: QueryParser, operand: Operand) -> Test:
    match operand:
        case Query():
            return operand
        case Function(name) if FUNCTIONS[name][1] == "t":
            return operand
        case _:
            return reader.fail("this is true or false of nothing; compare it")
