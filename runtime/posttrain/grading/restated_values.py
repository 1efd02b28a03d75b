"""Finds an answer that states its value twice: `1/3 = 0.333`, `\\sqrt{2} \\approx 1.41`, `6 is about 5`.

Both values must agree. Otherwise the answer states two values, and is wrong whichever of them is right.
"""

import re
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from posttrain.grading.comparison import SCALAR_NODES
from posttrain.grading.context import Context
from posttrain.grading.expression_tree import (
    Node,
    Percent,
    Quantity,
    Relation,
    Text,
    contains_node,
    symbols,
)
from posttrain.grading.form_checks import is_label
from posttrain.grading.interpretations import interpretations
from posttrain.grading.options import DEFAULTS
from posttrain.grading.rational_functions import Undecided
from posttrain.grading.scalars import compare_scalars

MAX_CHARACTERS = 400
ALMOST_EQUAL = re.compile(r"\s*\\(?:approx|simeq|thickapprox|approxeq|cong|sim|doteq)(?![a-zA-Z])\s*")
ROUNDED = re.compile(
    r",?\s*\(?\s*(?:(?:or|which\s+is|that\s+is|is|are|equals?|i\.e\.,?)\s+)?"
    r"\b(?:about|approximately|approx\b\.?|roughly|around|circa|nearly|almost)\s+(?=[-+\\$\d(.])",
    re.IGNORECASE,
)
EQUATED = re.compile(
    r"\s*,?\s+\(?(?:is|are|was|were|equals?|means|aka|i\.e\.,?|that\s+is|namely)\s*:?\s+(?:equal\s+to\s+)?",
    re.IGNORECASE,
)
ARROW = re.compile(
    r"\s*(?:={2,3}|<=>|=>|->"
    r"|\\(?:Rightarrow|implies|iff|Leftrightarrow|to|rightarrow|Longrightarrow)(?![a-zA-Z]))\s*"
)
PARENTHESIZED = re.compile(r"^(?=\S*\d)(\S+)\s+\((?:or\s+)?(-?\d[\d./]*%?)\)$")
VALUE_END = re.compile(r"[\d})$%][\s.,;:(]*(?:\\?[A-Za-z{}\\ ^\d]{1,24})?$")
PLAIN_NUMBER = re.compile(r"\d[\d,]*(?:\.(\d+))?")
NOT_PLAIN = re.compile(r"\\[a-zA-Z]*(?:frac|sqrt|pi|log|ln|sin|cos|tan)|[\^/]")


class Restatement(NamedTuple):
    """rounded: whether each value but the first is an approximation of the one before."""

    values: tuple[str, ...]
    rounded: bool


def split_restatement(text: str) -> Restatement | None:
    """The values of an answer that states one value in several ways, or None."""
    if len(text) > MAX_CHARACTERS:
        return None
    for pattern in (ALMOST_EQUAL, ROUNDED):
        parts = [part for part in map(_strip_part, pattern.split(text)) if part]
        if len(parts) < 2 or (pattern is ROUNDED and not VALUE_END.search(parts[0])):
            continue
        labelled = _is_label(parts[0]) and is_constant(parts[1])
        if not labelled:
            return Restatement(tuple(parts), True)
        if len(parts) > 2:
            return Restatement(tuple(parts[1:]), True)
    if found := PARENTHESIZED.match(text):
        return Restatement((found[1], found[2]), True)
    for pattern, is_value in ((EQUATED, is_constant), (ARROW, _is_expression)):
        parts = [part.strip() for part in pattern.split(text)]
        if len(parts) > 1 and all(is_value(part) for part in parts):
            return Restatement(tuple(parts), False)
    return None


def _strip_part(part: str) -> str:
    return part.strip(" $" if part.count("(") == part.count(")") else " $()")


def rounding_unit(value: str) -> float:
    """The unit in the last place of a plain number, or 0 for another value."""
    number = None if NOT_PLAIN.search(value) else PLAIN_NUMBER.search(value)
    if number is None:
        return 0.0
    return 10.0 ** -len(number[1] or "") / (100 if "%" in value else 1)


def coarse_unit(value: str) -> float:
    """The unit in the last place that is not zero: 100 for 1200."""
    number = None if NOT_PLAIN.search(value) else PLAIN_NUMBER.search(value)
    if number is None or number[1]:
        return rounding_unit(value)
    digits = number[0].replace(",", "")
    zeros = len(digits) - len(digits.rstrip("0")) if digits.strip("0") else 0
    return rounding_unit(value) * 10.0**zeros


def is_constant(text: str) -> bool:
    """Whether a text is a value without variables."""
    return any(_is_constant_node(node) for node in interpretations(text, DEFAULTS))


def _is_expression(text: str) -> bool:
    """Whether a text is an expression with variables, but not a lone letter or a relation."""
    nodes = interpretations(text, DEFAULTS)
    expression = bool(nodes) and all(isinstance(node, SCALAR_NODES) and not is_label(node) for node in nodes)
    return expression or is_constant(text)


def _is_constant_node(node: Node) -> bool:
    value = node.value if isinstance(node, Quantity | Percent) else node
    if is_label(value):
        return False
    return isinstance(value, SCALAR_NODES) and not symbols(value) and not contains_node(value, Text)


def is_contradictory(node: Node, context: Context) -> bool:
    """Whether a chain of equations has different constants, such as x = 6 = 5. A rounded value may follow."""
    if not isinstance(node, Relation) or set(node.operators) != {"="}:
        return False
    plain = [side for side in node.sides if not isinstance(side, Quantity | Percent)]
    constants = [side for side in plain if _is_constant_node(side)]
    rounding = replace(context, options=replace(context.options, rounding="reference", min_digits=1))
    return any(_differ(one, two, rounding) for one, two in pairwise(constants))


def _differ(one: Node, two: Node, context: Context) -> bool:
    try:
        return compare_scalars(one, two, context).equal is False
    except Undecided:
        return False


def _is_label(text: str) -> bool:
    """Whether a text names the value after it, such as x or P(X > 2)."""
    nodes = interpretations(text, DEFAULTS)
    return bool(nodes) and "=" not in text and not any(_is_constant_node(node) for node in nodes)
