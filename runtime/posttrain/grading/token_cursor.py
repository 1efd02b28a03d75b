"""A cursor over the tokens of one expression, with a limit on the parser's depth."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from posttrain.grading.brackets import CLOSING, closing_index, token_symbol
from posttrain.grading.expression_tree import Group, Node, ParseError, TooLarge
from posttrain.grading.latex_tokens import Token

MAX_DEPTH = 64
TIMES_SIGNS = frozenset(("*", "times", "cdot"))
DIVISION_SIGNS = frozenset(("/", "over", "div"))
SIGNS = frozenset(("+", "-", "pm", "mp"))
NON_FACTORS = frozenset(CLOSING) | SIGNS | TIMES_SIGNS | DIVISION_SIGNS | {"ldots", "circ", "choose", "to"}
FACTORS = frozenset(("letter", "roman", "(", "[", "{", "begin"))


@dataclass(frozen=True, slots=True)
class ParseMode:
    """How to parse ambiguous notation.

    tight_products: `1/2x` is 1/(2x).
    log_base_10: `log` without a base has base 10.
    unit_letters: a letter after a number can be a unit.
    """

    tight_products: bool = False
    log_base_10: bool = False
    unit_letters: bool = False


ParseBracketed = Callable[[list[Token], ParseMode, int], Node]


class TokenCursor(ABC):
    """The base class of the expression parsers.

    Brackets can contain more than a scalar, such as a tuple or a set. The parser of complete answers, passed
    as `parse_bracketed` to avoid a circular import, parses them.
    """

    def __init__(self, tokens: list[Token], mode: ParseMode, depth: int, parse_bracketed: ParseBracketed):
        self.tokens = tokens
        self.mode = mode
        self.depth = depth
        self.parse_bracketed = parse_bracketed
        self.position = 0
        self.bars = 0

    @abstractmethod
    def sum(self) -> Node: ...

    @abstractmethod
    def product(self) -> Node: ...

    @abstractmethod
    def parse_tokens(self, tokens: list[Token]) -> Node:
        """Parse other tokens as a separate expression."""

    @abstractmethod
    def power(self) -> Node: ...

    @abstractmethod
    def primary(self) -> Node: ...

    def peek(self, ahead: int = 0) -> str:
        index = self.position + ahead
        return token_symbol(self.tokens[index]) if index < len(self.tokens) else ""

    def take(self) -> Token:
        if self.position >= len(self.tokens):
            raise ParseError("unexpected end of the expression")
        self.position += 1
        return self.tokens[self.position - 1]

    def enter_level(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TooLarge(f"nested deeper than {MAX_DEPTH}")

    def starts_factor(self) -> bool:
        """Whether the next token starts a factor without a multiplication sign."""
        name = self.peek()
        if name == "|":
            return self.bars == 0
        if name == "number":
            before = self.tokens[self.position - 1].kind if self.position else "number"
            return before not in ("number", "letter") or (before == "number" and self.peek(1) == "^")
        kind = self.tokens[self.position].kind if name else ""
        return name not in NON_FACTORS if kind == "command" else kind in FACTORS

    def operand(self) -> Node:
        """Parse one factor, such as the argument of a root without braces."""
        self.enter_level()
        node = self.primary()
        self.depth -= 1
        return node

    def read_bracketed(self) -> Node:
        return self.read_enclosed(self.position)

    def read_enclosed(self, start: int) -> Node:
        """Parse the content of the brackets that open at `start`."""
        end = closing_index(self.tokens, start)
        self.enter_level()
        node = self.parse_bracketed(self.tokens[start : end + 1], self.mode, self.depth)
        self.depth -= 1
        self.position = end + 1
        return node

    def arguments(self) -> tuple[Node, ...]:
        node = self.read_bracketed()
        return node.items if isinstance(node, Group) else (node,)

    def subscript(self) -> str:
        if self.peek() != "{":
            return self.take().text
        end = closing_index(self.tokens, self.position)
        inner = self.tokens[self.position + 1 : end]
        self.position = end + 1
        return "".join(part.text for part in inner if part.kind not in ("{", "}"))
