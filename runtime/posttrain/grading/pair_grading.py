"""Grades one candidate against one reference, in the calling process or in a worker.

The limits depend on the texts alone. A candidate that exceeds one is wrong, since an abstention would pay
better than a wrong answer. A reference that exceeds one leaves all its candidates undecided.
"""

import re
from itertools import product

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
from posttrain.grading.simplification import unsimplified_reason
from posttrain.grading.strip_wrapping import strip_wrapping
from posttrain.grading.word_answers import (
    ARTICLE,
    leading_choice,
    normalize_words,
    parse_choice,
    parse_phrase,
)

# Steps and bits of exact arithmetic. The local budget limits a comparison to about 0.1 s.
LOCAL_BUDGET = (20_000, 40_000)
WORKER_BUDGET = (200_000, 200_000)
WORD = re.compile(r"[a-z]{2,}")
LETTERS = re.compile(r"[A-Za-z\s]{3,}")
PREDICATE = re.compile(r".*\b(?:is|are|was|were)\s+(.+)$", re.DOTALL)
ANSWERS = frozenset(("yes", "no", "true", "false"))
LETTER = re.compile(r"[A-J]")
LETTER_LIST = re.compile(r"[A-J](?:[\s,;&]*(?:and\s+)?[A-J])+")
ITEM = re.compile(r"\s*(?:,|;|\band\b|&)\s*")


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
    if options.sentences and outcome.equal is False:
        parts = answer_in_prose(candidate), answer_in_prose(reference, reference=True)
        if any(parts):
            return _compare_texts(parts[0] or candidate, parts[1] or reference, options, symbolic)
    return outcome


def _compare_choices(
    candidate: str, reference: str, options: Options, symbolic: SymbolicChecker | None
) -> Outcome | None:
    one, two = strip_wrapping(candidate), strip_wrapping(reference)
    letters = LETTER_LIST.fullmatch(one), LETTER_LIST.fullmatch(two)
    if all(letters) and ("," in one + two or " " in one + two):
        same = sorted(LETTER.findall(one)) == sorted(LETTER.findall(two))
        return Outcome(same, "the same choices" if same else "different choices", "text")
    candidate_choice, reference_choice = parse_choice(one), parse_choice(two)
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


def _compare_texts(
    candidate: str, reference: str, options: Options, symbolic: SymbolicChecker | None
) -> Outcome:
    one, two = strip_wrapping(candidate), strip_wrapping(reference)
    if one == two:
        return Outcome(True, "the same text", "text")
    if outcome := compare_times(one, two) if ":" in one else compare_dates(one, two):
        return outcome
    if LETTERS.fullmatch(one) and LETTERS.fullmatch(two):
        return _compare_words(one, two, options)
    if WORD.fullmatch(normalize_words(one)) and normalize_words(
        one, options.case_sensitive
    ) == normalize_words(two, options.case_sensitive):
        return Outcome(True, "the same words", "text")
    left, right = _parse_nodes(candidate, one, options, False), _parse_nodes(reference, two, options, True)
    context = Context(options, Budget(*(WORKER_BUDGET if symbolic else LOCAL_BUDGET)), symbolic, compare)
    if isinstance(left[0], Text) and isinstance(right[0], Text):
        texts = _compare_words(one, two, options)
        return texts if texts.equal else _unsupported_outcome(candidate) or texts
    if isinstance(left[0], Text) or isinstance(right[0], Text):
        unsupported = _unsupported_outcome(candidate)
        if unsupported is not None:
            return unsupported
    outcomes: list[Outcome] = []
    for first, second in product(left, right):
        outcomes.append(compare(first, second, context))
        if outcomes[-1].equal:
            return _check_simplified(outcomes[-1], first, options)
    return any_of(outcomes)


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


def _compare_words(one: str, two: str, options: Options) -> Outcome:
    meanings = parse_phrase(one), parse_phrase(two)
    if meanings[0] is not None and meanings[0] == meanings[1]:
        return Outcome(True, "phrases with the same meaning", "text")
    first, second = normalize_words(one, options.case_sensitive), normalize_words(two, options.case_sensitive)
    if first == second and first:
        return Outcome(True, "the same words", "text")
    predicate = PREDICATE.match(first)
    if predicate and second and ARTICLE.sub("", predicate[1]) == second:
        return Outcome(True, "a sentence with the same answer", "text")
    if second in ANSWERS and one.casefold().startswith((second + ",", second + ".")):
        return Outcome(True, f"a sentence with the answer {second}", "text")
    if options.order != "strict":
        items = [
            sorted(normalize_words(item, options.case_sensitive) for item in ITEM.split(text))
            for text in (one, two)
        ]
        if items[0] == items[1] and all(items[0]):
            return Outcome(True, "the same words in another order", "text")
    return Outcome(False, "different words", "text")
