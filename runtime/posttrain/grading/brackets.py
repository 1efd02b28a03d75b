"""Finds closing brackets, and splits tokens at separators outside brackets."""

from collections.abc import Container, Iterator

from posttrain.grading.expression_tree import ParseError
from posttrain.grading.latex_tokens import Token

# Round and square brackets close each other: (1, 2] is an interval.
OPENING = {"(": "round", "[": "round", "{": "brace", "\\{": "set", "langle": "angle", "lfloor": "floor",
           "lceil": "ceil", "begin": "begin"}  # fmt: skip
CLOSING = {")": "round", "]": "round", "}": "brace", "\\}": "set", "rangle": "angle", "rfloor": "floor",
           "rceil": "ceil", "end": "begin"}  # fmt: skip


def token_symbol(token: Token) -> str:
    """The symbol of a token in the grammar: the name of a command, or the kind of any other token."""
    return token.text if token.kind == "command" else token.kind


def closing_index(tokens: list[Token], at: int) -> int:
    """The index of the bracket that closes the one at `at`."""
    stack: list[str] = []
    for place in range(at, len(tokens)):
        name = token_symbol(tokens[place])
        if name in OPENING:
            stack.append(OPENING[name])
        elif name in CLOSING:
            if not stack or stack.pop() != CLOSING[name]:
                raise ParseError("mismatched brackets")
            if not stack:
                return place
    raise ParseError("unclosed bracket")


def top_level_indices(tokens: list[Token]) -> Iterator[int]:
    """The indices of the tokens outside all brackets, without the brackets themselves."""
    place = 0
    while place < len(tokens):
        name = token_symbol(tokens[place])
        if name in OPENING:
            place = closing_index(tokens, place)
        elif name in CLOSING:
            raise ParseError("mismatched brackets")
        else:
            yield place
        place += 1


def split_tokens(tokens: list[Token], names: Container[str]) -> tuple[list[list[Token]], list[Token]]:
    """Split at the separators with these names outside brackets. Return the runs and the separators."""
    if not any(token_symbol(token) in names for token in tokens):
        return [tokens], []
    return split_tokens_at(
        tokens, [place for place in top_level_indices(tokens) if token_symbol(tokens[place]) in names]
    )


def split_tokens_at(tokens: list[Token], places: list[int]) -> tuple[list[list[Token]], list[Token]]:
    starts = [0] + [place + 1 for place in places]
    ends = [*places, len(tokens)]
    runs = [tokens[start:end] for start, end in zip(starts, ends, strict=True)]
    return runs, [tokens[place] for place in places]
