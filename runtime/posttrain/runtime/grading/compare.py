"""Two answers: each rule looks at the pair and decides, or leaves it to the next."""

from collections.abc import Callable

from posttrain.runtime.grading.context import Context, Outcome
from posttrain.runtime.grading.families import families
from posttrain.runtime.grading.items import collections, real_sets, systems
from posttrain.runtime.grading.matrices import matrices
from posttrain.runtime.grading.measures import percentages, quantities, ratios
from posttrain.runtime.grading.piecewise import piecewise
from posttrain.runtime.grading.relations import relations
from posttrain.runtime.grading.ring import Unsettled
from posttrain.runtime.grading.scalars import SAME, same
from posttrain.runtime.grading.shape import matched, shape
from posttrain.runtime.grading.tree import (
    Based,
    Call,
    Constant,
    Node,
    Number,
    Power,
    Product,
    Quotient,
    Sum,
    Symbol,
    Text,
    Unreadable,
)

SCALARS = (Number, Constant, Symbol, Sum, Product, Quotient, Power, Call, Based)
COMPARISON = 5  # what a comparison costs, in steps of exact arithmetic
Rule = Callable[[Node, Node, Context], Outcome | None]


def compare(left: Node, right: Node, context: Context) -> Outcome:
    try:
        context.budget.spend(COMPARISON)
        return _compared(shape(left), shape(right), context)
    except Unreadable as reason:
        return Outcome(None, str(reason), "limit")
    except Unsettled as reason:
        return Outcome(None, str(reason))


def _compared(left: Node, right: Node, context: Context) -> Outcome:
    if left == right:
        return SAME
    for rule in RULES:
        outcome = rule(left, right, context)
        if outcome is not None:
            return outcome
    return Outcome(False, f"{_name(left)} against {_name(right)}")


def texts(left: Node, right: Node, context: Context) -> Outcome | None:
    if isinstance(left, Text) and isinstance(right, Text):
        same_words = left.words.casefold() == right.words.casefold()
        return Outcome(same_words, "the same words" if same_words else "different words", "text")
    return None


def based(left: Node, right: Node, context: Context) -> Outcome | None:
    """1011_2 is 11; and where only one side names the base, the same digits will do."""
    number, other = (left, right) if isinstance(left, Based) else (right, left)
    if not isinstance(number, Based) or isinstance(other, Based) or not isinstance(other, Number):
        return None
    if number.digits == str(other.value) and context.options.units == "optional":
        return Outcome(True, "the same digits, the base named once")
    return None


def scalars(left: Node, right: Node, context: Context) -> Outcome | None:
    if isinstance(left, SCALARS) and isinstance(right, SCALARS):
        return same(*matched(left, right), context)
    return None


RULES: tuple[Rule, ...] = (
    texts,
    piecewise,
    systems,
    real_sets,
    relations,
    percentages,
    quantities,
    ratios,
    matrices,
    collections,
    based,
    families,
    scalars,
)


def _name(node: Node) -> str:
    return "a number" if isinstance(node, SCALARS) else f"a {type(node).__name__.lower()}"
