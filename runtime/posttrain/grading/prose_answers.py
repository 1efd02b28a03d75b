"""What a sentence says, or a whole solution: the one answer in it, or the value that it ends with."""

import re
from itertools import islice

from posttrain.grading.expression_tree import TooLarge
from posttrain.grading.extraction import (
    MATH,
    NUMBER,
    ExtractionRules,
    distinct_values,
    extract,
    leading_value,
)
from posttrain.grading.interpretations import interpretations
from posttrain.grading.options import DEFAULTS, Options
from posttrain.grading.strip_wrapping import has_later_answer
from posttrain.grading.word_answers import TEXT_COMMAND

EXPLICIT_ANSWERS = ExtractionRules(methods=("boxed", "hashes", "phrase"))
NAMED_ANSWERS = ExtractionRules(methods=("hashes", "phrase"))
MIN_WORDS = 3
LAST_SENTENCES = 3
END_CHARACTERS = 2000
# Words that make a sentence with a number in it say something else than that number.
HEDGES = re.compile(
    r"\b(?:not|cannot|neither|wrong|incorrect|less|more|greater|fewer|least|most|between|either|or|maybe|perhaps|if|"
    r"unless|except|over|under|above|below)\b|n't\b",
    re.IGNORECASE,
)
INCONCLUSIVE = re.compile(rf"{HEDGES.pattern}|\band\b", re.IGNORECASE)
NEGATIONS = re.compile(r"\b(?:not|cannot|wrong|incorrect|too)\b|n't\b", re.IGNORECASE)
PREDICATE = re.compile(r".*(?:\bis\b|'s\b|\bare\b|\bequals?\b|=)\s*:?\s*(\S.*)$", re.DOTALL)
CHOSEN_OPTION = re.compile(r"\b(?:option|choice)\s+\(?([A-J])\)?[\s.*]*$")
# A value said again, in round figures: the exact one counts.
APPROXIMATION = re.compile(
    r",?\s*(?:\(|\bor\b|\bwhich is\b)?\s*\b(?:about|approximately|roughly)\s+\$?[-\d.,]+%?\$?\)?[.\s]*$"
)
GROUP = re.compile(r"[(\[]\s*-?[\w.\\/{}^]{1,30}(?:\s*,\s*-?[\w.\\/{}^]{1,30}){1,5}\s*[)\]]")
BLANKS = re.compile(r"[ \t\r\f\v\u00a0]{2,}")  # of long runs some patterns would make much work
SENTENCES = re.compile(r"(?<=[.!?])\s+(?=[A-Z$\\\[(])|\n+")
WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}")
DIGIT = re.compile(r"\d|\\(?:pi|sqrt|infty|emptyset)")


def shorten_answer(text: str, options: Options) -> str:
    """The text, or what a longer one says at its end. Raises TooLarge."""
    if len(text) <= options.max_characters:
        return text
    found = extract(text, EXPLICIT_ANSWERS)
    if found is None and options.sentences:
        found = concluding_value(text[-END_CHARACTERS:])
    if found is None or len(found) > options.max_characters:
        raise TooLarge(f"an answer of {len(text)} characters, more than {options.max_characters}")
    return found


def answer_in_prose(text: str, reference: bool = False) -> str | None:
    """After 'the answer is', after the last 'is', the one value, or the value at the end. Not the last for a
    reference, which is no solution: July 4, 1776 says more than its year."""
    text = BLANKS.sub(" ", TEXT_COMMAND.sub(r" \1 ", text))
    if len(text.split()) < MIN_WORDS:
        return None
    if chosen := CHOSEN_OPTION.search(text):
        return chosen[1]
    found = extract(text, NAMED_ANSWERS if has_later_answer(text) else EXPLICIT_ANSWERS)
    if found is not None and found != text:
        if is_readable(found) or HEDGES.search(found):
            return found
        return leading_value(found) or (None if reference else concluding_value(found)) or found
    if is_readable(text):
        return None
    if HEDGES.search(text):
        return None if reference else concluding_value(text)
    said = distinct_values(text)
    if len(said) == 1:
        return said[0]
    predicate = PREDICATE.match(text)
    if predicate and is_readable(predicate[1]):
        return predicate[1]
    return None if reference else concluding_value(text)


def is_readable(text: str) -> bool:
    return bool(interpretations(text, DEFAULTS))


def concluding_value(text: str) -> str | None:
    """The value that the last sentences end with, unless they take it back or leave it open."""
    text = BLANKS.sub(" ", text)
    if len(text.split()) < MIN_WORDS or not WORD.search(text):
        return None
    for sentence in islice(reversed(SENTENCES.split(text)), LAST_SENTENCES):
        found = _find_values(sentence)
        if not found:
            continue
        predicate = PREDICATE.match(sentence.rstrip(" .!"))
        if predicate and is_readable(predicate[1]) and not WORD.search(predicate[1]):
            return predicate[1]
        before = found[-2].end() if len(found) > 1 else 0
        last = found[-1]
        kept = INCONCLUSIVE.search(sentence, before, last.start()) or NEGATIONS.search(sentence, last.end())
        return None if kept else next((group for group in last.groups() if group), last[0])
    return None


def _find_values(sentence: str) -> list[re.Match[str]]:
    """Formulas and the numbers beside them, in order; names such as $x$ only where nothing else is."""
    exact = APPROXIMATION.sub("", sentence)
    sentence = exact if NUMBER.search(exact) else sentence
    formulas = [*MATH.finditer(sentence)]
    formulas += [
        group
        for group in GROUP.finditer(sentence)
        if not any(formula.start() <= group.start() < formula.end() for formula in formulas)
    ]
    numbers = [
        number
        for number in NUMBER.finditer(sentence)
        if not any(formula.start() <= number.start() < formula.end() for formula in formulas)
    ]
    found = sorted((*formulas, *numbers), key=lambda match: match.start())
    return [match for match in found if DIGIT.search(match[0])] or found
