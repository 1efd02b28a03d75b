"""A JSON query with its filters: their grammar, and which comparisons make sense.

A text that is no query, or that compares what cannot be compared, raises ValueError and says where.
"""

import re

from posttrain.runtime.rewards.json_query import (
    FUNCTIONS,
    Compare,
    Function,
    Literal,
    Logic,
    Operand,
    Query,
    Test,
)
from posttrain.runtime.rewards.json_reader import Reader

DEPTH_AT_MOST = 32
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
FUNCTION = re.compile(r"([a-z][a-z_0-9]*)\(")
COMPARED = re.compile(r"==|!=|<=|>=|<|>")
WORDS = {"true": True, "false": False, "null": None}
WORD = re.compile(r"(true|false|null)(?![\w])")


def parsed(text: str) -> Query:
    reader = Reader(text, condition)
    reader.need("$")
    query = reader.query(from_root=True)
    if reader.at < len(text):
        reader.fail("this is no step of a query")
    return query


def condition(reader: Reader) -> Test:
    reader.depth += 1
    if reader.depth > DEPTH_AT_MOST:
        reader.fail("nested too deep")
    parts = [_both(reader)]
    while _joint(reader, "||"):
        parts.append(_both(reader))
    reader.depth -= 1
    return parts[0] if len(parts) == 1 else Logic("any", tuple(parts))


def _both(reader: Reader) -> Test:
    parts = [_basic(reader)]
    while _joint(reader, "&&"):
        parts.append(_basic(reader))
    return parts[0] if len(parts) == 1 else Logic("all", tuple(parts))


def _joint(reader: Reader, mark: str) -> bool:
    start = reader.at
    reader.blank()
    if reader.take(mark):
        reader.blank()
        return True
    reader.at = start
    return False


def _basic(reader: Reader) -> Test:
    if reader.text.startswith("!", reader.at) and not reader.text.startswith("!=", reader.at):
        reader.at += 1
        reader.blank()
        inner = _grouped(reader) if reader.take("(") else _test(reader, _operand(reader))
        return Logic("not", (inner,))
    if reader.take("("):
        return _grouped(reader)
    left = _operand(reader)
    start = reader.at
    reader.blank()
    operator = reader.match(COMPARED)
    if operator is None:
        reader.at = start
        return _test(reader, left)
    reader.blank()
    return Compare(operator[0], _comparable(reader, left), _comparable(reader, _operand(reader)))


def _grouped(reader: Reader) -> Test:
    reader.blank()
    inner = condition(reader)
    reader.blank()
    reader.need(")")
    return inner


def _operand(reader: Reader) -> Operand:
    here = reader.text[reader.at : reader.at + 1]
    if here in ("@", "$"):
        reader.at += 1
        return reader.query(from_root=here == "$")
    if here in ("'", '"') and here:
        return Literal(reader.string())
    if word := reader.match(WORD):
        return Literal(WORDS[word[1]])
    if number := reader.match(NUMBER):
        return Literal(float(number[0]) if set(number[0]) & set(".eE") else int(number[0]))
    return _function(reader)


def _function(reader: Reader) -> Function:
    found = reader.match(FUNCTION)
    if found is None:
        reader.fail("a value, a query or a function was expected")
    takes = FUNCTIONS[found[1]][0] if found[1] in FUNCTIONS else reader.fail(f"no function `{found[1]}`")
    arguments: list[Operand] = []
    reader.blank()
    while not reader.take(")"):
        if arguments:
            reader.need(",")
            reader.blank()
        arguments.append(_argument(reader))
        reader.blank()
    if len(arguments) != len(takes):
        reader.fail(f"`{found[1]}` takes {len(takes)}")
    for kind, argument in zip(takes, arguments, strict=True):
        if not (isinstance(argument, Query) if kind == "n" else _is_value(argument)):
            reader.fail(f"`{found[1]}` does not take this")
    return Function(found[1], tuple(arguments))


def _argument(reader: Reader) -> Operand:
    """A value, or a whole condition where a function would take one."""
    start = reader.at
    found = _operand(reader)
    after = reader.at
    reader.blank()
    if reader.text[reader.at : reader.at + 1] in (",", ")"):
        reader.at = after
        return found
    reader.at = start
    return condition(reader)


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


def _comparable(reader: Reader, operand: Operand) -> Operand:
    return operand if _is_value(operand) else reader.fail("this is no single value, to be compared")


def _test(reader: Reader, operand: Operand) -> Test:
    match operand:
        case Query():
            return operand
        case Function(name) if FUNCTIONS[name][1] == "t":
            return operand
        case _:
            return reader.fail("this is true or false of nothing; compare it")
