"""Grades one candidate against one reference, in the calling process or in a worker.

The limits depend on the texts alone. A candidate that exceeds one is wrong, since an abstention would pay
better than a wrong answer. A reference that exceeds one leaves all its candidates undecided.
"""

import re
from dataclasses import replace
from itertools import pairwise, product

from posttrain.grading.comparison import compare
from posttrain.grading.context import Context, Outcome, SymbolicChecker, any_of
from posttrain.grading.dates_and_times import compare_dates, compare_times
from posttrain.grading.expression_tree import Node, ParseError, Text, TooLarge
from posttrain.grading.form_checks import normalize_form
from posttrain.grading.interpretations import interpretations, unsupported_notation
from posttrain.grading.options import DEFAULTS, Options
from posttrain.grading.prose_answers import answer_in_prose, shorten_answer
from posttrain.grading.rational_functions import Budget
from posttrain.grading.repair_latex import visible_text
from posttrain.grading.restated_values import (
    Restatement,
    coarse_unit,
    is_contradictory,
    rounding_unit,
    split_restatement,
)
from posttrain.grading.simplification import unsimplified_reason
from posttrain.grading.strip_wrapping import strip_wrapping
from posttrain.grading.word_answers import leading_choice, normalize_words, parse_choice, parse_phrase
from posttrain.grading.word_comparison import compare_letters, compare_words, denies_words, sole_choice

# Steps and bits of exact arithmetic. The local budget limits a comparison to about 0.1 s.
RESTATED_RATIO = 0.01
CONTRADICTORY = Outcome(False, "the answer states different values")
LOCAL_BUDGET = (20_000, 40_000)
WORKER_BUDGET = (200_000, 200_000)
WORD = re.compile(r"[a-z]{2,}")
LETTERS = re.compile(r"[A-Za-z\s]{3,}")


def grade_pair(
    candidate: str, reference: str, options: Options, symbolic: SymbolicChecker | None = None
) -> Outcome:
    """The outcome of comparing two texts. An undecided one with another path than `limit` needs a worker."""
    candidate, reference = visible_text(candidate).strip(), visible_text(reference).strip()
    if not reference:
        return Outcome(None, "the reference is empty", "text")
    if not candidate:
        return Outcome(False, "the candidate is empty", "text")
    if candidate == reference:
        return Outcome(True, "the same text", "text")
    try:
        shortened = shorten_answer(reference, options)
        if limit := _reference_limit(shortened, options):
            return Outcome(None, limit, "limit")
    except (TooLarge, ParseError) as reason:
        return Outcome(None, f"the reference exceeds a limit: {reason}", "limit")
    try:
        outcome = _grade_texts(shorten_answer(candidate, options), shortened, options, symbolic)
    except TooLarge as reason:
        return Outcome(False, f"the candidate exceeds a limit: {reason}", "limit")
    if outcome.equal is None and outcome.path == "limit":
        return Outcome(False, f"the candidate exceeds a limit: {outcome.reason}", "limit")
    return outcome


def read_reference(reference: str, options: Options) -> tuple[Node, ...]:
    """The interpretations of a reference that `grade_pair` has accepted."""
    return interpretations(shorten_answer(visible_text(reference).strip(), options), options, True)


def _reference_limit(reference: str, options: Options) -> str | None:
    """Why the reference cannot be compared with any candidate, or None. Raises TooLarge or ParseError."""
    nodes = interpretations(reference, options, True)
    for node in nodes:
        normalize_form(node)
    if nodes or (options.sentences and answer_in_prose(reference, reference=True)):
        return None
    notation = unsupported_notation(reference)
    return f"unsupported notation {notation} in the reference" if notation else None


def _grade_texts(
    candidate: str, reference: str, options: Options, symbolic: SymbolicChecker | None
) -> Outcome:
    if options.choices and (outcome := _compare_choices(candidate, reference, options, symbolic)):
        return outcome
    outcome = _compare_texts(candidate, reference, options, symbolic)
    if outcome == CONTRADICTORY or split_restatement(strip_wrapping(candidate)):
        return outcome
    if options.sentences and outcome.equal is False:
        parts = answer_in_prose(candidate), answer_in_prose(reference, reference=True)
        if any(parts):
            return _compare_texts(parts[0] or candidate, parts[1] or reference, options, symbolic)
    return outcome


def _compare_choices(
    candidate: str, reference: str, options: Options, symbolic: SymbolicChecker | None
) -> Outcome | None:
    one, two = strip_wrapping(candidate), strip_wrapping(reference)
    if letters := compare_letters(one, two):
        return letters
    candidate_choice, reference_choice = sole_choice(one), parse_choice(two)
    if candidate_choice and reference_choice:
        same = candidate_choice[0] == reference_choice[0]
        reason = f"choice {candidate_choice[0]} compared with choice {reference_choice[0]}"
        return Outcome(same, reason, "text")
    if reference_choice and not reference_choice[1] and (letter := leading_choice(one)):
        reason = f"choice {letter} compared with choice {reference_choice[0]}"
        return Outcome(letter == reference_choice[0], reason, "text")
    if reference_choice and reference_choice[1]:
        return _compare_texts(candidate, reference_choice[1], options, symbolic)
    return (
        _compare_texts(candidate_choice[1], reference, options, symbolic)
        if candidate_choice and candidate_choice[1]
        else None
    )


def _compare_restated(
    restated: Restatement, reference: str, options: Options, symbolic: SymbolicChecker | None
) -> Outcome:
    """Compare an answer that states its value several times. The values must agree with each other."""
    for first, second in pairwise(restated.values):
        unit = 0.99 * coarse_unit(second) if restated.rounded else 0.0
        agreement = _grade_texts(first, second, _tolerant(options, unit, restated.rounded), symbolic)
        if agreement.equal is not True:
            return CONTRADICTORY if agreement.equal is False else agreement
    outcome = _grade_texts(restated.values[0], reference, options, symbolic)
    for first, second in pairwise(restated.values):
        if outcome.equal is not False:
            return outcome
        unit = 0.501 * rounding_unit(second)
        if _grade_texts(first, second, _tolerant(options, unit, False), symbolic).equal:
            outcome = _grade_texts(second, reference, options, symbolic)
    return outcome


def _tolerant(options: Options, unit: float, relative: bool) -> Options:
    """The options with a tolerance of one unit, or of one percent for a value that is not a plain number."""
    rel_tol = RESTATED_RATIO if relative and not unit else 0.0
    return replace(options, abs_tol=unit, rel_tol=rel_tol, require_simplified=False)


def _compare_texts(
    candidate: str, reference: str, options: Options, symbolic: SymbolicChecker | None
) -> Outcome:
    one, two = strip_wrapping(candidate), strip_wrapping(reference)
    if one == two:
        return Outcome(True, "the same text", "text")
    if restated := split_restatement(one):
        return _compare_restated(restated, two, options, symbolic)
    if outcome := _compare_without_parsing(one, two, options):
        return outcome
    left, right = _parse_nodes(candidate, one, options, False), _parse_nodes(reference, two, options, True)
    context = Context(options, Budget(*(WORKER_BUDGET if symbolic else LOCAL_BUDGET)), symbolic, compare)
    if all(is_contradictory(node, context) for node in left):
        return CONTRADICTORY
    if isinstance(left[0], Text) or isinstance(right[0], Text):
        both = isinstance(left[0], Text) and isinstance(right[0], Text)
        words = compare_words(one, two, options) if both else None
        decided = words if words and words.equal else _unsupported_outcome(candidate) or words
        if decided:
            return decided
    outcomes: list[Outcome] = []
    for first, second in product(left, right):
        outcomes.append(compare(first, second, context))
        if outcomes[-1].equal:
            return _check_simplified(outcomes[-1], first, options)
    return any_of(outcomes)


def _compare_without_parsing(one: str, two: str, options: Options) -> Outcome | None:
    """Compare times, dates and plain words. None for other answers."""
    if outcome := compare_times(one, two) if ":" in one else compare_dates(one, two):
        return outcome
    if denies_words(one, two):
        return Outcome(False, "a denied or doubtful answer", "text")
    if LETTERS.fullmatch(one) and LETTERS.fullmatch(two):
        return compare_words(one, two, options)
    words = [normalize_words(text, options.case_sensitive) for text in (one, two)]
    if WORD.fullmatch(normalize_words(one)) and words[0] == words[1]:
        return Outcome(True, "the same words", "text")
    return None


def _unsupported_outcome(candidate: str) -> Outcome | None:
    """The outcome if the candidate is mathematics in an unsupported notation, else None."""
    if not interpretations(candidate, DEFAULTS) and (notation := unsupported_notation(candidate)):
        return Outcome(False, f"unsupported notation {notation} in the candidate", "limit")
    return None


def _check_simplified(outcome: Outcome, node: Node, options: Options) -> Outcome:
    reason = unsimplified_reason(node) if options.require_simplified else None
    return Outcome(False, f"equal, but not simplified: {reason}", outcome.path) if reason else outcome


def _parse_nodes(text: str, cleaned: str, options: Options, reference: bool) -> tuple[Node, ...]:
    meaning = parse_phrase(cleaned)
    if meaning is not None:
        return (meaning,)
    return interpretations(text, options, reference) or (
        Text(normalize_words(cleaned, options.case_sensitive)),
    )
