"""Compares two answers with a list of rules. Each rule decides, or leaves the pair to the next rule."""

from collections.abc import Callable

from posttrain.grading.collections import collection_rule, set_rule, system_rule
from posttrain.grading.context import Context, Outcome
from posttrain.grading.expression_tree import (
    BasedNumber,
    Call,
    Constant,
    Node,
    Number,
    ParseError,
    Power,
    Product,
    Quotient,
    Sum,
    Symbol,
    Text,
)
from posttrain.grading.form_checks import normalize_form, unify_parameters
from posttrain.grading.integration_constants import integration_constant_rule
from posttrain.grading.matrices import matrix_rule
from posttrain.grading.piecewise import piecewise_rule
from posttrain.grading.quantity_comparison import percentage_rule, quantity_rule, ratio_rule
from posttrain.grading.rational_functions import Undecided
from posttrain.grading.relations import relation_rule
from posttrain.grading.scalars import SAME_EXPRESSION, compare_scalars

SCALAR_NODES = (Number, Constant, Symbol, Sum, Product, Quotient, Power, Call, BasedNumber)
COMPARISON_COST = 5  # the cost of a comparison in steps of exact arithmetic
Rule = Callable[[Node, Node, Context], Outcome | None]


def compare(left: Node, right: Node, context: Context) -> Outcome:
    try:
        context.budget.spend(COMPARISON_COST)
        return _apply_rules(normalize_form(left), normalize_form(right), context)
    except ParseError as reason:
        return Outcome(None, str(reason), "limit")
    except Undecided as reason:
        return Outcome(None, str(reason))


def _apply_rules(left: Node, right: Node, context: Context) -> Outcome:
    if left == right:
        return SAME_EXPRESSION
    for rule in RULES:
        outcome = rule(left, right, context)
        if outcome is not None:
            return outcome
    return Outcome(False, f"{_describe(left)} compared with {_describe(right)}")


def text_rule(left: Node, right: Node, context: Context) -> Outcome | None:
    if isinstance(left, Text) and isinstance(right, Text):
        same_words = left.words.casefold() == right.words.casefold()
        return Outcome(same_words, "the same words" if same_words else "different words", "text")
    return None


def base_rule(left: Node, right: Node, context: Context) -> Outcome | None:
    """Compares numbers with a base, such as 1011_2. If only one side has a base, equal digits are enough."""
    number, other = (left, right) if isinstance(left, BasedNumber) else (right, left)
    if not isinstance(number, BasedNumber) or isinstance(other, BasedNumber) or not isinstance(other, Number):
        return None
    if number.digits == str(other.value) and context.options.units == "optional":
        return Outcome(True, "the same digits, with a base on one side only")
    return None


def scalar_rule(left: Node, right: Node, context: Context) -> Outcome | None:
    if isinstance(left, SCALAR_NODES) and isinstance(right, SCALAR_NODES):
        return compare_scalars(*unify_parameters(left, right), context)
    return None


RULES: tuple[Rule, ...] = (
    text_rule,
    piecewise_rule,
    system_rule,
    set_rule,
    relation_rule,
    percentage_rule,
    quantity_rule,
    ratio_rule,
    matrix_rule,
    collection_rule,
    base_rule,
    integration_constant_rule,
    scalar_rule,
)


def _describe(node: Node) -> str:
    return "a number" if isinstance(node, SCALAR_NODES) else f"a {type(node).__name__.lower()}"
