"""A cursor over the tokens of one expression, with a bound on how deep the grammar may go."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from posttrain.runtime.grading.brackets import CLOSING, closing, mark
from posttrain.runtime.grading.tokens import Token
from posttrain.runtime.grading.tree import Group, Node, TooLarge, Unreadable

DEPTH_AT_MOST = 64
TIMES = frozenset(("*", "times", "cdot"))
OVER = frozenset(("/", "over", "div"))
SIGNS = frozenset(("+", "-", "pm", "mp"))
NO_FACTOR = frozenset(CLOSING) | SIGNS | TIMES | OVER | {"ldots", "circ", "choose", "to"}
FACTORS = frozenset(("letter", "roman", "(", "[", "{", "begin"))


@dataclass(frozen=True, slots=True)
class Mode:
    """How to read what can be read in two ways.

    tight: `1/2x` is 1/(2x). common: `log` without a base is to base 10. units: a letter after a number may be
    a unit.
    """

    tight: bool = False
    common: bool = False
    units: bool = False


Inside = Callable[[list[Token], Mode, int], Node]


class Cursor(ABC):
    """What stands in brackets may be more than a scalar (a tuple, a set), so the parser of whole answers
    comes in as `inside`, and the modules do not import each other."""

    def __init__(self, tokens: list[Token], mode: Mode, depth: int, inside: Inside):
        self.tokens = tokens
        self.mode = mode
        self.depth = depth
        self.inside = inside
        self.at = 0
        self.bars = 0

    @abstractmethod
    def sum(self) -> Node: ...

    @abstractmethod
    def product(self) -> Node: ...

    @abstractmethod
    def parsed(self, tokens: list[Token]) -> Node:
        """Other tokens as an expression of their own."""

    @abstractmethod
    def power(self) -> Node: ...

    @abstractmethod
    def primary(self) -> Node: ...

    def here(self, ahead: int = 0) -> str:
        place = self.at + ahead
        return mark(self.tokens[place]) if place < len(self.tokens) else ""

    def take(self) -> Token:
        if self.at >= len(self.tokens):
            raise Unreadable("something is missing at the end")
        self.at += 1
        return self.tokens[self.at - 1]

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > DEPTH_AT_MOST:
            raise TooLarge(f"nested deeper than {DEPTH_AT_MOST}")

    def starts(self) -> bool:
        """Whether the next token begins a factor, with no sign of multiplication before it."""
        name = self.here()
        if name == "|":
            return self.bars == 0
        if name == "number":
            before = self.tokens[self.at - 1].kind if self.at else "number"
            return before not in ("number", "letter") or (before == "number" and self.here(1) == "^")
        kind = self.tokens[self.at].kind if name else ""
        return name not in NO_FACTOR if kind == "command" else kind in FACTORS

    def operand(self) -> Node:
        """One factor: what a root sign without braces covers."""
        self.deeper()
        node = self.primary()
        self.depth -= 1
        return node

    def bracketed(self) -> Node:
        return self.enclosed(self.at)

    def enclosed(self, start: int) -> Node:
        """What the brackets hold that open at `start`."""
        end = closing(self.tokens, start)
        self.deeper()
        node = self.inside(self.tokens[start : end + 1], self.mode, self.depth)
        self.depth -= 1
        self.at = end + 1
        return node

    def arguments(self) -> tuple[Node, ...]:
        node = self.bracketed()
        return node.items if isinstance(node, Group) else (node,)

    def subscript(self) -> str:
        if self.here() != "{":
            return self.take().text
        end = closing(self.tokens, self.at)
        inner = self.tokens[self.at + 1 : end]
        self.at = end + 1
        return "".join(part.text for part in inner if part.kind not in ("{", "}"))
