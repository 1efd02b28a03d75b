"""One candidate against one reference, from strings to an outcome. The same in the parent and in a worker."""

import re
from itertools import product

from posttrain.runtime.grading.clock import dates, times
from posttrain.runtime.grading.compare import compare
from posttrain.runtime.grading.context import Context, Outcome, Symbolic, any_of
from posttrain.runtime.grading.dress import clean
from posttrain.runtime.grading.mend import visible
from posttrain.runtime.grading.options import DEFAULTS, Options
from posttrain.runtime.grading.readings import readings, unknown
from posttrain.runtime.grading.ring import Budget
from posttrain.runtime.grading.simplest import why_not_simplest
from posttrain.runtime.grading.spoken import shortened, spoken
from posttrain.runtime.grading.tree import Node, Text, TooLarge
from posttrain.runtime.grading.words import ARTICLE, choice, chosen, phrase, words

# Steps and bits of exact arithmetic: so many that a comparison here takes a tenth of a second at most.
HERE = (20_000, 40_000)
IN_WORKER = (200_000, 200_000)
WORD = re.compile(r"[a-z]{2,}")
LETTERS = re.compile(r"[A-Za-z\s]{3,}")
SAID = re.compile(r".*\b(?:is|are|was|were)\s+(.+)$", re.DOTALL)
ANSWERS = frozenset(("yes", "no", "true", "false"))
LETTER = re.compile(r"[A-J]")
LETTER_LIST = re.compile(r"[A-J](?:[\s,;&]*(?:and\s+)?[A-J])+")
ITEM = re.compile(r"\s*(?:,|;|\band\b|&)\s*")


def decide(candidate: str, reference: str, options: Options, symbolic: Symbolic | None = None) -> Outcome:
    """Raises nothing on any text; undecided with a reason where a limit ends the work."""
    candidate, reference = visible(candidate).strip(), visible(reference).strip()
    if not reference:
        return Outcome(None, "the reference is empty", "text")
    if not candidate:
        return Outcome(False, "the candidate is empty", "text")
    if candidate == reference:
        return Outcome(True, "the same text", "text")
    try:
        return _decided(shortened(candidate, options), shortened(reference, options), options, symbolic)
    except TooLarge as reason:
        return Outcome(None, str(reason), "limit")


def _decided(candidate: str, reference: str, options: Options, symbolic: Symbolic | None) -> Outcome:
    if options.choices and (chosen := _choices(candidate, reference, options, symbolic)):
        return chosen
    outcome = _compared(candidate, reference, options, symbolic)
    if options.sentences and (outcome.equal is False or outcome.path == "limit"):
        parts = spoken(candidate), spoken(reference, reference=True)
        if any(parts):
            return _compared(parts[0] or candidate, parts[1] or reference, options, symbolic)
    return outcome


def _choices(candidate: str, reference: str, options: Options, symbolic: Symbolic | None) -> Outcome | None:
    one, two = clean(candidate), clean(reference)
    letters = LETTER_LIST.fullmatch(one), LETTER_LIST.fullmatch(two)
    if all(letters) and ("," in one + two or " " in one + two):
        same = sorted(LETTER.findall(one)) == sorted(LETTER.findall(two))
        return Outcome(same, "the same choices" if same else "different choices", "text")
    given, wanted = choice(one), choice(two)
    if given and wanted:
        same = given[0] == wanted[0]
        return Outcome(same, f"choice {given[0]} against choice {wanted[0]}", "text")
    if wanted and not wanted[1] and (letter := chosen(one)):
        return Outcome(letter == wanted[0], f"choice {letter} against choice {wanted[0]}", "text")
    if wanted and wanted[1]:
        return _compared(candidate, wanted[1], options, symbolic)
    return _compared(given[1], reference, options, symbolic) if given and given[1] else None


def _compared(candidate: str, reference: str, options: Options, symbolic: Symbolic | None) -> Outcome:
    one, two = clean(candidate), clean(reference)
    if one == two:
        return Outcome(True, "the same text", "text")
    if outcome := times(one, two) if ":" in one else dates(one, two):
        return outcome
    if LETTERS.fullmatch(one) and LETTERS.fullmatch(two):
        return _texts(one, two, options)
    if WORD.fullmatch(words(one)) and words(one, options.case) == words(two, options.case):
        return Outcome(True, "the same words", "text")
    left, right = _nodes(candidate, one, options, False), _nodes(reference, two, options, True)
    context = Context(options, Budget(*(IN_WORKER if symbolic else HERE)), symbolic, compare)
    if isinstance(left[0], Text) and isinstance(right[0], Text):
        texts = _texts(one, two, options)
        return texts if texts.equal else _unread(candidate, reference) or texts
    if isinstance(left[0], Text) or isinstance(right[0], Text):
        strange = _unread(candidate, reference)
        if strange is not None:
            return strange
    found: list[tuple[Outcome, Node]] = []
    for first, second in product(left, right):
        found.append((compare(first, second, context), first))
        if found[-1][0].equal:
            return _in_form(*found[-1], options)
    return any_of([outcome for outcome, _ in found])


def _unread(candidate: str, reference: str) -> Outcome | None:
    """Undecided, where a text is no words but mathematics that this package cannot read."""
    for side, text in (("candidate", candidate), ("reference", reference)):
        if not readings(text, DEFAULTS) and (notation := unknown(text)):
            return Outcome(None, f"the {side} holds {notation}, which is not read", "limit")
    return None


def _in_form(outcome: Outcome, node: Node, options: Options) -> Outcome:
    left_over = why_not_simplest(node) if options.simplified else None
    return Outcome(False, f"equal, but {left_over}", outcome.path) if left_over else outcome


def _nodes(text: str, cleaned: str, options: Options, reference: bool) -> tuple[Node, ...]:
    meant = phrase(cleaned)
    if meant is not None:
        return (meant,)
    return readings(text, options, reference) or (Text(words(cleaned, options.case)),)


def _texts(one: str, two: str, options: Options) -> Outcome:
    meant = phrase(one), phrase(two)
    if meant[0] is not None and meant[0] == meant[1]:
        return Outcome(True, "phrases of the same meaning", "text")
    first, second = words(one, options.case), words(two, options.case)
    if first == second and first:
        return Outcome(True, "the same words", "text")
    said = SAID.match(first)
    if said and second and ARTICLE.sub("", said[1]) == second:
        return Outcome(True, "a sentence that says so", "text")
    if second in ANSWERS and one.casefold().startswith((second + ",", second + ".")):
        return Outcome(True, f"a sentence that says {second}", "text")
    if options.order != "strict":
        items = [sorted(words(item, options.case) for item in ITEM.split(text)) for text in (one, two)]
        if items[0] == items[1] and all(items[0]):
            return Outcome(True, "the same words in another order", "text")
    return Outcome(False, "different words", "text")
