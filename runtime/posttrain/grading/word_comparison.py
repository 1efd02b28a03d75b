"""Compares answers in words, and the letters of choices."""

import re

from posttrain.grading.context import Outcome
from posttrain.grading.doubt_words import DOUBT, is_task
from posttrain.grading.options import Options
from posttrain.grading.word_answers import (
    ARTICLE,
    OTHER_LETTER,
    normalize_words,
    parse_choice,
    parse_phrase,
)

PREDICATE = re.compile(
    r"^(?:(?:so|thus|hence|therefore|then|and)\s+)*(?:the|it|this|that|they|these|those|he|she|we|my|our|its|a|an)\b"
    r"(?:(?!\b(?:is|are|was|were|or|says?)\b).)*\b(?:is|are|was|were)\s+(?P<answer>.+)$",
    re.DOTALL,
)
ANSWERS = frozenset(("yes", "no", "true", "false"))
CONTRADICTIONS = re.compile(
    r"\b(?:yes|no|true|false|but|however|wait|actually|both|only if)\b", re.IGNORECASE
)
TAKEN_BACK = re.compile(
    r"\b(?:or|either|maybe|perhaps|possibly|unless|wrong|incorrect|rather)\b", re.IGNORECASE
)
LETTER = re.compile(r"[A-J]")
LETTERS = re.compile(r"[A-J]{2,5}")
LETTER_LIST = re.compile(r"[A-J](?:[\s,;&]*(?:and\s+)?[A-J])+")
DENIAL = re.compile(r"\s*(?:[~!\u00ac]|\\(?:lnot|neg|not|overline|bar)(?![a-zA-Z]))")
PLAIN_WORDS = re.compile(r"(?=.*[a-z]{2})[A-Za-z][A-Za-z\s]*")
ITEM = re.compile(r"\s*(?:,|;|\band\b|&)\s*")


def denies_words(one: str, two: str) -> bool:
    """Whether an answer is the negation of words, or a question: `!Paris`, `Paris?`."""
    doubtful = DENIAL.match(one) or "?" in one
    return bool(doubtful and PLAIN_WORDS.fullmatch(two))


def compare_words(one: str, two: str, options: Options) -> Outcome:
    meanings = parse_phrase(one), parse_phrase(two)
    if meanings[0] is not None and meanings[0] == meanings[1]:
        return Outcome(True, "phrases with the same meaning", "text")
    first, second = normalize_words(one, options.case_sensitive), normalize_words(two, options.case_sensitive)
    if first == second and first:
        return Outcome(True, "the same words", "text")
    if second and _stated_answer(one, first) == second:
        return Outcome(True, "a sentence with the same answer", "text")
    if second in ANSWERS and _starts_with_answer(one, second):
        return Outcome(True, f"a sentence with the answer {second}", "text")
    if options.order != "strict":
        items = [
            sorted(normalize_words(item, options.case_sensitive) for item in ITEM.split(text))
            for text in (one, two)
        ]
        if items[0] == items[1] and all(items[0]):
            return Outcome(True, "the same words in another order", "text")
    return Outcome(False, "different words", "text")


def _stated_answer(sentence: str, words: str) -> str | None:
    """The answer in a sentence such as `The curve is a hyperbola`."""
    subject = sentence.casefold()
    predicate = PREDICATE.match(subject if PREDICATE.match(subject) else words)
    if predicate is None or is_task(sentence) or DOUBT.search(sentence[: predicate.start("answer")]):
        return None
    if re.search(r"[.!;?]\s+\S", sentence):
        return None
    return ARTICLE.sub("", normalize_words(predicate["answer"]))


def _starts_with_answer(sentence: str, answer: str) -> bool:
    """Whether a sentence starts with yes or no, and the rest does not take it back: `Yes, it is.`"""
    if not sentence.casefold().startswith((answer + ",", answer + ".")):
        return False
    rest = sentence[len(answer) :]
    doubt = TAKEN_BACK if answer in ("no", "false") else DOUBT
    return not (CONTRADICTIONS.search(rest) or doubt.search(rest))


def compare_letters(one: str, two: str) -> Outcome | None:
    """Compare lists of choices, such as `B, D` and `BD`."""
    if not (LETTER_LIST.fullmatch(one) and LETTER_LIST.fullmatch(two)):
        return None
    separated = "," in one + two or " " in one + two
    if not separated and not (LETTERS.fullmatch(one) and LETTERS.fullmatch(two)):
        return None
    same = sorted(LETTER.findall(one)) == sorted(LETTER.findall(two))
    return Outcome(same, "the same choices" if same else "different choices", "text")


def sole_choice(text: str) -> tuple[str, str] | None:
    """The letter of a choice and the text after it, unless that names another choice or takes it back."""
    choice = parse_choice(text)
    if choice is None:
        return None
    return None if OTHER_LETTER.search(choice[1]) or DOUBT.search(choice[1]) else choice
