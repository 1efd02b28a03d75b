"""Finds the answer in a sentence or a full solution: its only value, or its last value."""

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
# Words after which a number in a sentence is not its answer.
HEDGES = re.compile(
    r"\b(?:not|cannot|neither|wrong|incorrect|less|more|greater|fewer|least|most|between|either|or|maybe|perhaps|if|"
    r"unless|except|over|under|above|below)\b|n't\b",
    re.IGNORECASE,
)
INCONCLUSIVE = re.compile(rf"{HEDGES.pattern}|\band\b", re.IGNORECASE)
NEGATIONS = re.compile(r"\b(?:not|cannot|wrong|incorrect|too)\b|n't\b", re.IGNORECASE)
PREDICATE = re.compile(r".*(?:\bis\b|'s\b|\bare\b|\bequals?\b|=)\s*:?\s*(\S.*)$", re.DOTALL)
CHOSEN_OPTION = re.compile(r"\b(?:option|choice)\s+\(?([A-J])\)?[\s.*]*$")
# A rounded restatement of the value before it. The exact value is the answer.
APPROXIMATION = re.compile(
    r",?\s*(?:\(|\bor\b|\bwhich is\b)?\s*\b(?:about|approximately|roughly)\s+\$?[-\d.,]+%?\$?\)?[.\s]*$"
)
GROUP = re.compile(r"[(\[]\s*-?[\w.\\/{}^]{1,30}(?:\s*,\s*-?[\w.\\/{}^]{1,30}){1,5}\s*[)\]]")
BLANKS = re.compile(r"[ \t\r\f\v\u00a0]{2,}")  # some patterns are slow on long runs of blanks
SENTENCES = re.compile(r"(?<=[.!?])\s+(?=[A-Z$\\\[(])|\n+")
WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}")
DIGIT = re.compile(r"\d|\\(?:pi|sqrt|infty|emptyset)")


def shorten_answer(text: str, options: Options) -> str:
    """The text, or the answer at the end of a text that is too long. Raises TooLarge."""
    if len(text) <= options.max_characters:
        return text
    answer = extract(text, EXPLICIT_ANSWERS)
    if answer is None and options.sentences:
        answer = concluding_value(text[-END_CHARACTERS:])
    if answer is None or len(answer) > options.max_characters:
        raise TooLarge(f"answer too long: {len(text)} characters, the maximum is {options.max_characters}")
    return answer


def answer_in_prose(text: str, reference: bool = False) -> str | None:
    """The text after 'the answer is' or the last 'is', the only value, or the value at the end.

    The value at the end is not used for a reference, which is not a solution: the answer of July 4, 1776 is
    not 1776.
    """
    text = BLANKS.sub(" ", TEXT_COMMAND.sub(r" \1 ", text))
    if len(text.split()) < MIN_WORDS:
        return None
    if option := CHOSEN_OPTION.search(text):
        return option[1]
    answer = extract(text, NAMED_ANSWERS if has_later_answer(text) else EXPLICIT_ANSWERS)
    if answer is not None and answer != text:
        if is_readable(answer) or HEDGES.search(answer):
            return answer
        return leading_value(answer) or (None if reference else concluding_value(answer)) or answer
    if is_readable(text):
        return None
    if HEDGES.search(text):
        return None if reference else concluding_value(text)
    values = distinct_values(text)
    if len(values) == 1:
        return values[0]
    predicate = PREDICATE.match(text)
    if predicate and is_readable(predicate[1]):
        return predicate[1]
    return None if reference else concluding_value(text)


def is_readable(text: str) -> bool:
    return bool(interpretations(text, DEFAULTS))


def concluding_value(text: str) -> str | None:
    """The value at the end of the last sentences, unless they negate it or are inconclusive."""
    text = BLANKS.sub(" ", text)
    if len(text.split()) < MIN_WORDS or not WORD.search(text):
        return None
    for sentence in islice(reversed(SENTENCES.split(text)), LAST_SENTENCES):
        values = _find_values(sentence)
        if not values:
            continue
        predicate = PREDICATE.match(sentence.rstrip(" .!"))
        if predicate and is_readable(predicate[1]) and not WORD.search(predicate[1]):
            return predicate[1]
        before = values[-2].end() if len(values) > 1 else 0
        last = values[-1]
        hedge = INCONCLUSIVE.search(sentence, before, last.start()) or NEGATIONS.search(sentence, last.end())
        return None if hedge else next((group for group in last.groups() if group), last[0])
    return None


def _find_values(sentence: str) -> list[re.Match[str]]:
    """Formulas, and numbers outside them, in order. Names such as $x$ count only if there is nothing else."""
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
    values = sorted((*formulas, *numbers), key=lambda match: match.start())
    return [match for match in values if DIGIT.search(match[0])] or values
