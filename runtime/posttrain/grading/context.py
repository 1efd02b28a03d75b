"""The context and the outcome of a comparison."""

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
    """The comparisons beyond exact arithmetic, which run only in a worker."""

    def compare(self, left: Node, right: Node) -> Outcome: ...

    def value(self, node: Node) -> Fraction | None: ...


@dataclass(frozen=True, slots=True)
class Context:
    """The context of a comparison.

    compare: compares complete answers; rules call it for the parts of an answer.
    symbolic: if None, a pair that exact arithmetic cannot decide stays undecided.
    """

    options: Options
    budget: Budget
    symbolic: SymbolicChecker | None
    compare: Callable[[Node, Node, "Context"], Outcome]


def all_of(outcomes: list[Outcome]) -> Outcome:
    """Equal if all are equal, different if any is different, else undecided."""
    for verdict in (False, None):
        for outcome in outcomes:
            if outcome.equal is verdict:
                return outcome
    return max(outcomes, key=lambda outcome: outcome.path == "symbolic")


def any_of(outcomes: list[Outcome]) -> Outcome:
    """Equal if any is equal, undecided if any is undecided, else the first outcome."""
    for verdict in (True, None):
        for outcome in outcomes:
            if outcome.equal is verdict:
                return outcome
    return outcomes[0]
