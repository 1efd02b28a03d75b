"""Words that show that a text does not state one answer: negations, alternatives, comparisons, tasks.

A model that is rewarded for a match learns to hedge. Therefore a value in prose counts only if no such word
stands where it changes the meaning of the value.
"""

import re


def _pattern(words: str, *more: str) -> re.Pattern[str]:
    choices = "|".join([*words.split(), *more])
    return re.compile(rf"(?<![\\\w])(?:{choices})(?!\w)|n't\b", re.IGNORECASE)


NEGATIVE = """
not cannot neither nor never no none nobody nothing without wrong wrongly incorrect incorrectly false
falsely untrue invalid bad reject rejected rejects excluded excludes excluding except exclude unless
unlike deny denied doubt doubtful impossible opposite inverse negation unlikely mistaken mistake error
erroneous
"""
ALTERNATIVE = """
or either whether other another alternatively alternative alternatives else instead rather otherwise
maybe perhaps possibly potentially presumably supposedly if guess guesses guessing oder ou und xor versus
vs aka equally possible possibility naive trap pretend imagine assume assumed suppose supposed also
respectively depends depending sometimes unsure unclear
"""
COMPARATIVE = """
similar example far bound bounded hardly barely scarcely epsilon says claims claimed suggests tends
including like less greater fewer larger smaller bigger higher lower least most near close up above below
over under between beyond within than approaching exceeds exceeding
"""
# Words that cannot be in the name of a counted thing: `5 squared`, `5 km or miles`, `5 point 5`.
OPERATION = """
plus minus multiplied divided squared cubed factorial half halves third thirds fourth fourths fifths
sixths sevenths eighths ninths tenths hundredths thousandths tens hundreds thousands millions modulo mod
power point to from at about with approximately roughly around nearly almost but as well that which this
it too
"""
TASK = """
pretend imagine try test check ignore find compute calculate evaluate determine simplify solve express
factor expand convert prove show verify what which who how why is are does do did can could will would
should tell please question write choose
"""
CONDITION = "if when where given suppose assume consider whenever unless"

GOAL_VERBS = "find|compute|calculate|evaluate|determine|solve|simplify|prove|show|know"
GOALS = (
    r"(?:could|might|may)\s+(?:also\s+)?be",
    "asks?",
    "asked",
    "want(?:s|ed)?",
    "task",
    rf"(?:need|have|needs|has|trying|going|try|us|order|how|required?)\s+to\s+(?:{GOAL_VERBS})",
)
HEARSAY = (
    r"(?:some|others|people)\s+(?:get|got)",
    r"(?:people|some|others|you|they|many|one)\s+(?:\w+\s+)?(?:say|says|said|answer|claim|claims|think|believe)",
)
IN_UNIT = _pattern(NEGATIVE + ALTERNATIVE + COMPARATIVE + OPERATION)
DOUBT = _pattern(
    NEGATIVE.replace(" no ", " ") + ALTERNATIVE + COMPARATIVE,
    *GOALS,
    *HEARSAY,
    "but",
    r"such\s+as|e\.g\.|for\s+example",
    r"many\s+as",
    r"too\s+(?:small|large|big|low|high|many|few|much)",
)
BEFORE_VALUE = _pattern(
    NEGATIVE + ALTERNATIVE + COMPARATIVE,
    *GOALS,
    "but",
    "more",
    *HEARSAY,
    r"such\s+as|e\.g\.|for\s+example|including",
    r"many\s+as",
)
AFTER_VALUE = _pattern(
    NEGATIVE.replace(" no ", " ") + " maybe perhaps possibly possible choice naive trap unless",
    "too",
    r"(?:or|and)\s+(?:more|less|fewer|greater|higher|lower|larger|smaller|above|below|up|over|under|so|beyond|not)",
    r"or\s+\W?\d",
    r"at\s+(?:least|most)",
)
# Before a value that a sentence states as its answer. Many subjects have comparisons: `the least number`.
DENIED = _pattern(
    NEGATIVE.replace("not ", "") + ALTERNATIVE, r"anything\s+but", r"(?:check|see|test)\s+(?:that|if)"
)
# Directly before a value, these words make another value of it.
DERIVED = re.compile(
    r"\b(?:half|third|quarter|twice|thrice|double|triple|squared?|cubed?|cube|root|reciprocal|inverse|factorial|multiple|"
    r"divisor|factor|power|number\s+before|number\s+after|minus|plus|negative|one\s+of|among)\s+(?:of\s+)?[\s$(]*$",
    re.IGNORECASE,
)
# Words after which a sentence states its conclusion: a doubt before them does not concern it.
CONCLUSION = re.compile(
    r",\s*(?:so|then|thus|hence|therefore|and\s+so|we|he|she|it|they|the|this|there|which)\b|\b(?:so|thus|hence|therefore)\b",
    re.IGNORECASE,
)
# Words with which a sentence that opens with a value states another value as its answer: `12 - 5 leaves 7`.
RESULT = re.compile(
    r"=|\\(?:approx|implies|Rightarrow)|,\s*(?:then|leaving|making|giving)\b"
    r"|(?<!roughly )(?<!nearly )(?<!almost )(?<!approximately )\b(?:equals?|(?<!should )(?<!would )be)\b"
    r"|\b(?:is|are|was|were|gives?|makes?|yields?|leaves?|leaving|means|totals?|costs?|remains?|becomes?|has|have|had"
    r"|gets?|got|earns?|takes?|needs?|pays?|results?|so|thus|hence|therefore|answer|sum|product|difference|quotient"
    r"|total)\b",
    re.IGNORECASE,
)
# After the named answer, these words take it back or add a second one: `The answer is 6. No, 5.`
TAKEN_BACK = re.compile(
    r"(?:^|[.!?;,\n])[\s*$})]*(?:no|nope|wait|actually|sorry|oops|hmm+|correction|scratch\s+that|on\s+second\s+thought"
    r"|instead|rather|or|but|maybe|perhaps|i\s+mean|edit)\b[^\n.\d]{0,40}(-?\d[\d.,/]*)"
    r"(?:[^\S\n]+[a-z]+){0,4}[\s*$]*(?:[.!\n]|$)",
    re.IGNORECASE,
)
TASK_START = re.compile(
    rf"\s*(?:(?:please|question|problem|task|exercise|guess)\b\W*)*(?:{'|'.join(TASK.split())})\b(?!\s*[=:])",
    re.IGNORECASE,
)
CONDITION_START = re.compile(rf"\s*(?:{'|'.join(CONDITION.split())})\b(?:(?!\bthen\b)[^,])*$", re.IGNORECASE)
JUDGED = re.compile(
    r"\b(?:wrong|incorrect|false|bad|invalid|rejected|if|whether|unless|not)\s+(?:\w+\s+){0,2}$",
    re.IGNORECASE,
)


OTHER_AMOUNT = re.compile(r"(?<![\^\d-])\d|\bper\s*$|\bish\b")


def is_task(sentence: str) -> bool:
    """Whether a sentence asks for an answer or assumes one, instead of stating it."""
    stripped = sentence.rstrip(" $*_)\\")
    return bool(stripped.endswith("?") or TASK_START.match(sentence) or CONDITION_START.match(sentence))


def is_doubtful_noun(words: str) -> bool:
    """Whether words after a number change its value, or contain another number, and name no counted thing."""
    return IN_UNIT.search(words) is not None or OTHER_AMOUNT.search(words) is not None
