"""The context of a comparison, and its outcome."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, Protocol

from posttrain.grading.expression_tree import Node
from posttrain.grading.options import DecisionPath, Options
from posttrain.grading.rational_functions import Budget


class Outcome(NamedTuple):
    equal: bool | None
    reason: str
    path: DecisionPath = "exact"


class SymbolicChecker(Protocol):
    """What a worker can do beyond exact arithmetic."""

    def compare(self, left: Node, right: Node) -> Outcome: ...

    def value(self, node: Node) -> Fraction | None: ...


@dataclass(frozen=True, slots=True)
class Context:
    """`compare` is the comparison of whole answers, for the parts of this one. Without `symbolic`, what exact
    arithmetic cannot settle stays undecided."""

    options: Options
    budget: Budget
    symbolic: SymbolicChecker | None
    compare: Callable[[Node, Node, "Context"], Outcome]


def all_of(outcomes: list[Outcome]) -> Outcome:
    """All must be equal: one that differs decides, one undecided leaves it undecided."""
    for verdict in (False, None):
        for outcome in outcomes:
            if outcome.equal is verdict:
                return outcome
    return max(outcomes, key=lambda outcome: outcome.path == "symbolic")


def any_of(outcomes: list[Outcome]) -> Outcome:
    """One that is equal decides, one undecided leaves it undecided, else the first stands."""
    for verdict in (True, None):
        for outcome in outcomes:
            if outcome.equal is verdict:
                return outcome
    return outcomes[0]
