"""The options of a comparison, and its verdict."""

from dataclasses import dataclass
from typing import Literal

DecisionPath = Literal["text", "exact", "symbolic", "limit"]


@dataclass(frozen=True, slots=True)
class Options:
    """How lenient a comparison is. The defaults suit references written by people.

    percent: `50%` against a bare number. `either` takes 50 and 0.5, `fraction` only 0.5, `number` only 50.
    units: `optional` compares units when both sides have one (converting cm to m), `ignore` never,
        `require` always.
    order: `auto` reads sets and bare lists without order and tuples with it, `strict` gives bare lists
        an order too, `any` takes order from tuples.
    rounding: `long` lets a decimal of at least `min_digits` significant digits stand for a value that rounds
        or truncates to it, `reference` does so for every decimal in the reference, `off` never.
    rel_tol, abs_tol: tolerances between numbers; 0 means exact.
    require_simplified: the candidate must be in lowest terms, with no sum, product or power left to work out.
    case_sensitive: text answers are compared with their capitals.
    choices: `B`, `(B)`, `B.` and `(B) 12` may name the same choice.
    decimal_comma: `3,5` may be read as 3.5 when the other side is a number.
    sentences: a sentence is read for the one answer in it (`so there are 5 of them`); without it only a bare
        answer counts. A sentence that hedges (`5 or 6`, `not 5`) has no answer either way.
    proof_timeout_s: how long a worker may search a proof by sympy after the two sides agreed at every point
        tried; 0 accepts the agreement and never loads sympy.
    max_characters: a longer answer is not read.
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
    """`equal` is None when the grader could not decide; `reason` always says why.

    path: `text` (the strings decided), `exact` (exact arithmetic in this process), `symbolic` (a worker),
    `limit` (a size, complexity or time limit).
    """

    equal: bool | None
    reason: str
    path: DecisionPath
