"""The options and the verdict of a comparison."""

from dataclasses import dataclass
from typing import Literal

DecisionPath = Literal["text", "exact", "symbolic", "limit"]


@dataclass(frozen=True, slots=True)
class Options:
    """How strict a comparison is. The defaults suit references written by people.

    percent: what `50%` equals. `either` accepts 50 and 0.5, `fraction` only 0.5, `number` only 50.
    units: `optional` compares units if both sides have one (and converts cm to m), `ignore` never does, and
        `require` always does.
    order: `auto` ignores the order of sets and bare lists but not of tuples, `strict` ignores it only for
        sets, `any` ignores it for all.
    rounding: `long` accepts a decimal with at least `min_digits` significant digits for a value that rounds
        or truncates to it, `reference` also accepts every decimal in the reference, and `off` accepts none.
    rel_tol, abs_tol: the relative and absolute tolerance between numbers; 0 means exact.
    require_simplified: the candidate must be in lowest terms, without unevaluated sums, products or powers.
    case_sensitive: compare text answers with case.
    choices: treat `B`, `(B)`, `B.` and `(B) 12` as the same choice.
    decimal_comma: allow `3,5` to mean 3.5 if the other side is a number.
    sentences: find the answer in a sentence (`so there are 5 of them`); otherwise only a bare answer counts.
        An ambiguous sentence (`5 or 6`, `not 5`) never has an answer.
    proof_timeout_s: the CPU time in seconds for a proof with sympy, after both sides agree at all sampled
        points; 0 accepts the agreement and never loads sympy. A proof changes the reason, not the verdict.
    max_characters: the maximum length of an answer.
    """

    percent: Literal["either", "fraction", "number"] = "either"
    units: Literal["optional", "ignore", "require"] = "optional"
    order: Literal["auto", "strict", "any"] = "auto"
    rounding: Literal["long", "reference", "off"] = "long"
    min_digits: int = 6
    rel_tol: float = 0.0
    abs_tol: float = 0.0
    require_simplified: bool = False
    case_sensitive: bool = False
    choices: bool = True
    decimal_comma: bool = True
    sentences: bool = True
    proof_timeout_s: float = 0.0
    max_characters: int = 4000


DEFAULTS = Options()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of grading a pair.

    equal: True if the candidate is correct, False if it is wrong, None if the grader cannot decide.
    reason: the reason for the verdict; never empty.
    path: what decided: `text` (a comparison of the strings), `exact` (exact arithmetic in this process),
        `symbolic` (a worker), `limit` (a size, complexity or time limit).
    """

    equal: bool | None
    reason: str
    path: DecisionPath

    @property
    def outcome(self) -> Literal["correct", "wrong", "undecided"]:
        return "undecided" if self.equal is None else "correct" if self.equal else "wrong"

    def __str__(self) -> str:
        return f"{self.outcome}: {self.reason}"
