"""Brackets: where each one closes, and how a run of tokens splits outside all of them."""

from collections.abc import Container, Iterator

from posttrain.runtime.grading.tokens import Token
from posttrain.runtime.grading.tree import Unreadable

# Round and square brackets close each other: (1, 2] is an interval.
OPENING = {"(": "round", "[": "round", "{": "brace", "\\{": "set", "langle": "angle", "lfloor": "floor",
           "lceil": "ceil", "begin": "begin"}  # fmt: skip
CLOSING = {")": "round", "]": "round", "}": "brace", "\\}": "set", "rangle": "angle", "rfloor": "floor",
           "rceil": "ceil", "end": "begin"}  # fmt: skip


def mark(token: Token) -> str:
    """What a token is to the grammar: a command's name, or the kind of anything else."""
    return token.text if token.kind == "command" else token.kind


def closing(tokens: list[Token], at: int) -> int:
    """The place of the bracket that closes the one at `at`."""
    stack: list[str] = []
    for place in range(at, len(tokens)):
        name = mark(tokens[place])
        if name in OPENING:
            stack.append(OPENING[name])
        elif name in CLOSING:
            if not stack or stack.pop() != CLOSING[name]:
                raise Unreadable("brackets do not match")
            if not stack:
                return place
    raise Unreadable("a bracket is not closed")


def outside(tokens: list[Token]) -> Iterator[int]:
    """The places that stand in no bracket, the brackets themselves left out."""
    place = 0
    while place < len(tokens):
        name = mark(tokens[place])
        if name in OPENING:
            place = closing(tokens, place)
        elif name in CLOSING:
            raise Unreadable("brackets do not match")
        else:
            yield place
        place += 1


def split(tokens: list[Token], names: Container[str]) -> tuple[list[list[Token]], list[Token]]:
    """The runs between the separators of these names outside brackets, and the separators."""
    if not any(mark(token) in names for token in tokens):
        return [tokens], []
    return split_at(tokens, [place for place in outside(tokens) if mark(tokens[place]) in names])


def split_at(tokens: list[Token], places: list[int]) -> tuple[list[list[Token]], list[Token]]:
    starts = [0] + [place + 1 for place in places]
    ends = [*places, len(tokens)]
    runs = [tokens[start:end] for start, end in zip(starts, ends, strict=True)]
    return runs, [tokens[place] for place in places]
