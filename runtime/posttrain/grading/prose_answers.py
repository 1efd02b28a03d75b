"""Finds the answer in a sentence or a full solution: its only value, or its last value."""

import re
from itertools import islice

from posttrain.grading.doubt_words import (
    AFTER_VALUE,
    BEFORE_VALUE,
    CONCLUSION,
    DENIED,
    DERIVED,
    DOUBT,
    RESULT,
    TAKEN_BACK,
    is_task,
)
from posttrain.grading.expression_tree import TooLarge
from posttrain.grading.extraction import (
    MATH,
    NUMBER,
    NUMBERED_ANSWER,
    ExtractionRules,
    distinct_values,
    extract,
    leading_value,
)
from posttrain.grading.interpretations import interpretations
from posttrain.grading.options import DEFAULTS, Options
from posttrain.grading.restated_values import split_restatement
from posttrain.grading.strip_wrapping import has_later_answer
from posttrain.grading.word_answers import TEXT_COMMAND

EXPLICIT_ANSWERS = ExtractionRules(methods=("boxed", "hashes", "phrase"))
NAMED_ANSWERS = ExtractionRules(methods=("hashes", "phrase"))
MIN_WORDS = 3
LAST_SENTENCES = 3
END_CHARACTERS = 2000
# Marks other than words and punctuation, around the values of a sentence.
MARKUP = re.compile(r"\\[a-zA-Z]+|[<>|~^_{}\[\]\\]")
REFUSED_VALUE = re.compile(r"\b(?:not|isn't)\s+\S+\s*$", re.IGNORECASE)
REFUSED_OTHER = re.compile(r",?\s+(?:and\s+)?not\s+(?=[-$\\\d(])[^,;]{1,40}$")
# Stands between two values of which the last is the answer. Without it, they are a list.
STATING = re.compile(r"(?<![A-Za-z])(?!(?:then|so|thus|hence|therefore|and|just)\b)[A-Za-z]{2,}|=|\\")
REASON = re.compile(
    r"\b(?:because|since|as|when|where|which|that|for|after|at|so|from|by|out|of)\b|(?<!\\)[,.;](?:\s|$)"
)
STATEMENT = re.compile(r"\b(?:is|are|was|were|of|because|since|as|by|for|in)\b", re.IGNORECASE)
PREDICATE = re.compile(
    r".*(?:\bis\b|'s\b|\bare\b|(?<!nearly )(?<!almost )(?<!roughly )\bequals?\b|=)\s*:?\s*(\S.*)$", re.DOTALL
)
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
    if len(text.split()) < MIN_WORDS or len(NUMBERED_ANSWER.findall(text)) > 1:
        return None
    if option := CHOSEN_OPTION.search(text):
        return None if DOUBT.search(text) else option[1]
    answer = extract(text, NAMED_ANSWERS if has_later_answer(text) else EXPLICIT_ANSWERS)
    if answer is not None and answer != text:
        value = _named_answer(text, REFUSED_OTHER.sub("", answer), reference)
        return None if not reference and _is_taken_back(text[text.rfind(answer) :], value) else value
    return None if is_readable(text) or is_task(text) else _stated_answer(text, reference)


def _named_answer(text: str, answer: str, reference: bool) -> str | None:
    """The answer in the words after 'the answer is'."""
    if answer.casefold().startswith("not "):
        return None if reference else concluding_value(text)
    if is_readable(answer) or DOUBT.search(answer):
        return answer
    return _leading_answer(answer) or (None if reference else concluding_value(answer)) or answer


def _is_taken_back(text: str, value: str | None) -> bool:
    """Whether another value follows the named one in a text, as a correction or an alternative."""
    _, found, rest = text.partition(value or text)
    after = TAKEN_BACK.search(rest) if found else None
    return after is not None and after[1].rstrip(".,") != value


def _stated_answer(text: str, reference: bool) -> str | None:
    """The answer of a text that does not name it."""
    doubtful = DOUBT.search(text) is not None
    values = [] if doubtful else distinct_values(text)
    if len(values) == 1:
        derived = DERIVED.search(text[: max(0, text.find(values[0]))])
        plain = not MARKUP.search(MATH.sub("", text))
        return values[0] if plain and not derived and not _is_unknown_noun(text, values[0]) else None
    predicate = None if doubtful else PREDICATE.match(text)
    if predicate and is_readable(predicate[1]):
        return predicate[1]
    return None if reference else concluding_value(text)


def _leading_answer(answer: str) -> str | None:
    """The value at the start of a text, unless a second one follows before a reason: `12 cm / 13 cm`."""
    value = leading_value(answer)
    rest = REASON.split(answer.removeprefix(value), maxsplit=1)[0] if value else ""
    return None if re.search(r"\d|[?|]", rest) else value


def _is_unknown_noun(text: str, value: str) -> bool:
    """Whether a text is a value followed by words that name no counted thing, such as `5 km km`."""
    rest = text.lstrip(" $(").removeprefix(value)
    return len(rest) < len(text.lstrip(" $(")) and STATEMENT.search(rest) is None


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
        if is_task(sentence):
            return None
        if split_restatement(sentence.strip(" .!")):
            return sentence
        return _last_value(sentence, values)
    return None


def _last_value(sentence: str, values: list[re.Match[str]]) -> str | None:
    """The value that a sentence states last, unless words around it take it back."""
    before = values[-2].end() if len(values) > 1 else 0
    last = values[-1]
    if before and not _states_result(sentence, values[0], last):
        return None
    predicate = PREDICATE.match(sentence.rstrip(" .!"))
    if predicate and is_readable(predicate[1]) and not WORD.search(predicate[1]):
        is_correction = REFUSED_VALUE.search(sentence, 0, before) is not None
        end = predicate.start(1)
        denied = DENIED.search(sentence, _conclusion_start(sentence, min(before, end), end), end)
        return None if denied and not is_correction else predicate[1]
    between = sentence[before : last.start()]
    if between.count("(") > between.count(")") and before:
        return None
    doubtful = BEFORE_VALUE.search(sentence, _conclusion_start(sentence, before, last.start()), last.start())
    if doubtful or AFTER_VALUE.search(sentence, last.end()) or DERIVED.search(between):
        return None
    if _is_unknown_noun(sentence, last[0]) or (before and not STATING.search(between)):
        return None
    return next((group for group in last.groups() if group), last[0])


def _states_result(sentence: str, first: re.Match[str], last: re.Match[str]) -> bool:
    """Whether the last value is the answer of a sentence that opens with another: not `6 as well as 5`."""
    opening = WORD.search(sentence, 0, first.start()) is None
    return not opening or RESULT.search(sentence, first.end(), last.start()) is not None


def _conclusion_start(sentence: str, start: int, end: int) -> int:
    """Where the clause with the value starts."""
    return max((found.end() for found in CONCLUSION.finditer(sentence, start, end)), default=start)


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
