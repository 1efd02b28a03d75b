"""Repairs LaTeX whose meaning is still clear: doubled backslashes, missing braces, layout commands."""

import re

BACKSLASHES = re.compile(r"\\+")
DOUBLED_BACKSLASH = re.compile(
    r"\\\\(?=(?:[dt]?frac|sqrt|boxed|left|right|text|math\w\w|pi|c?dots?|times|leq?|geq?|neq?|infty|in|cup|cap|"
    r"circ|sin|cos|tan|ln|log|begin|end|pm|approx|q?quad|angle|alpha|beta|theta|binom|overline)(?![a-zA-Z]))"
)
LAYOUT = re.compile(
    r"\\(?:text)?color\s*(?:\[[^\[\]{}]{0,20}\]\s*)?\{[^{}]{0,40}\}"
    r"|\\(?:[hv]?phantom|[hv]space|tag|label|ref)\*?\s*\{[^{}]{0,40}\}"
    r"|\\text\s*\{\s*[.,;:]?\s*\}"
    r"|\\(?:blacksquare|qedsymbol|qed)(?![a-zA-Z])"
)
LOST_RIGHT = re.compile(r"\\right\s*$")
LEFT = re.compile(r"\\left\s*(\(|\[|\||\\\{)")
RIGHT_DELIMITERS = {"(": ")", "[": "]", "|": "|", "\\{": "\\}"}
BRACES = re.compile(r"\\.|[{}]", re.DOTALL)
ANGLES = re.compile(r"<([^<>=]*,[^<>=]*)>")
OPEN_CASES = re.compile(
    r"\\left\s*\\\{\s*\\begin\s*\{(?:array|aligned|matrix|gathered)\}(?:\s*\{[lcr| ]*\})?"
    r"((?:(?!\\begin|\\end).){0,2000})\\end\s*\{(?:array|aligned|matrix|gathered)\}\s*\\right\s*\.",
    re.DOTALL,
)
# Special tokens of chat templates and tokenizers that remain in completions.
TURN_TOKENS = re.compile(
    r"<\|(?:im_start|im_end|endoftext|end_of_text|eot_id|eom_id|end|user|begin_of_box|end_of_box)\|>"
    r"|</s>|<eos>|<end_of_turn>|<\uff5cend\u2581of\u2581sentence\uff5c>"
)
# Text that is struck out, commented out or invisible.
STRUCK = re.compile(
    r"~~[^~]{1,200}~~|<(s|del|strike)>.{0,200}?</\1>|<!--.{0,400}?-->"
    r"|\\(?:[bx]?cancel|sout|xout)\s*\{[^{}]{0,100}\}|.[\u0335-\u0338\u20e0]",
    re.DOTALL,
)
THINKING_END = "</think>"
# A line after the answer that states the confidence.
# Without the newlines before it: a run of newlines would be searched once from each of them.
CONFIDENCE_LINE = re.compile(r"\n(?:[*_]|[^\S\n])*(?:confidence|certainty)\b[^\n]{0,40}\s*$", re.IGNORECASE)


def visible_text(text: str) -> str:
    """The visible part of a completion: after the reasoning, before the next turn."""
    if "\n" in text:
        text = CONFIDENCE_LINE.sub("", text)
    text = STRUCK.sub(" ", text)
    if "<" not in text:
        return text
    after = text.rpartition(THINKING_END)[2]
    text = after if after.strip() else text
    return next((part for part in TURN_TOKENS.split(text) if part.strip()), text)


def repair_latex(text: str) -> str:
    if ANGLES.fullmatch(text):
        text = f"\\langle {text[1:-1]}\\rangle"
    if "\\" in text:
        text = LAYOUT.sub(" ", text)
        text = OPEN_CASES.sub(r"\\begin{cases}\1\\end{cases}", text)
        if LOST_RIGHT.search(text) and (opened := LEFT.findall(text)):
            text += RIGHT_DELIMITERS[opened[-1]]
        if text.endswith("\\") and not text.endswith("\\\\"):
            text = text[:-1]
    return balance_braces(text) if "{" in text or "}" in text else text


def unescape_backslashes(text: str) -> str:
    """The text with one level of backslash escaping removed, if it was escaped twice."""
    if "\\\\" not in text or not DOUBLED_BACKSLASH.search(text):
        return text
    if all(len(run) % 2 == 0 for run in BACKSLASHES.findall(text)):
        return BACKSLASHES.sub(lambda run: run[0][: len(run[0]) // 2], text)
    return text if "\\begin" in text else DOUBLED_BACKSLASH.sub("\\\\", text)


def balance_braces(text: str) -> str:
    """Add missing closing braces, and remove unmatched ones."""
    depth, unmatched = 0, list[int]()
    for brace in BRACES.finditer(text):
        if brace[0] == "{":
            depth += 1
        elif brace[0] == "}":
            depth -= 1
            if depth < 0:
                unmatched.append(brace.start())
                depth = 0
    for index in reversed(unmatched):
        text = text[:index] + text[index + 1 :]
    return text + "}" * depth
