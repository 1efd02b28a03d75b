"""Tokens to a scalar: sums, products, powers. Recursive descent with a bounded depth."""

from fractions import Fraction

from posttrain.runtime.grading.atoms import Atoms, times
from posttrain.runtime.grading.brackets import split
from posttrain.runtime.grading.cursor import OVER, SIGNS, TIMES, Inside, Mode
from posttrain.runtime.grading.matrices import measured
from posttrain.runtime.grading.tokens import Token
from posttrain.runtime.grading.tree import (
    DEGREE,
    Call,
    Node,
    Number,
    Power,
    Product,
    Quotient,
    Sign,
    Sum,
    Symbol,
    Unreadable,
    negative,
)

POSTFIXES = frozenset(("!", "%", "'"))
INFIXES = frozenset(("over", "choose"))
RAISED_MARKS = frozenset(("circ", "prime"))


class Parser(Atoms):
    def whole(self) -> Node:
        node = self.sum()
        if self.at < len(self.tokens):
            raise Unreadable(f"'{self.tokens[self.at].text}' was not expected")
        return node

    def parsed(self, tokens: list[Token]) -> Node:
        return Parser(tokens, self.mode, self.depth, self.inside).whole()

    def sum(self) -> Node:
        terms = [self._term()]
        while self.here() in SIGNS:
            terms.append(self._term())
        return terms[0] if len(terms) == 1 else Sum(tuple(terms))

    def _term(self) -> Node:
        signs: list[str] = []
        while self.here() in SIGNS:
            signs.append(self.take().text)
        node = self.product()
        for sign in reversed(signs):
            node = _with_sign(sign, node)
        return node

    def product(self) -> Node:
        node = self.power()
        while True:
            name = self.here()
            if name in TIMES:
                self.take()
                node = times(node, self._signed())
            elif name in OVER:
                self.take()
                node = Quotient(node, self._divisor())
            elif self.starts():
                node = times(node, self.power())
            else:
                return node

    def _divisor(self) -> Node:
        node = self._signed()
        while self.mode.tight and self.starts():
            node = times(node, self.power())
        return node

    def _signed(self) -> Node:
        sign = self.take().text if self.here() in SIGNS else "+"
        return _with_sign(sign, self.power())

    def power(self) -> Node:
        self.deeper()
        node = self._postfix(self.primary())
        while self.here() in ("^", "**"):
            self.take()
            node = self._postfix(self._raised(node))
        self.depth -= 1
        return node

    def _raised(self, base: Node) -> Node:
        if self.here() == "{" and self.here(1) in RAISED_MARKS and self.here(2) == "}":
            self.at += 3
            return times(base, DEGREE) if self.tokens[self.at - 2].text == "circ" else base
        if self.here() in RAISED_MARKS:
            return times(base, DEGREE) if self.take().text == "circ" else base
        if self.here() == "{":
            return Power(base, self.bracketed())
        sign = self.take().text if self.here() in ("+", "-") else "+"
        return Power(base, _with_sign(sign, self.power()))

    def _postfix(self, node: Node) -> Node:
        while self.here() in POSTFIXES:
            name = self.take().text
            if name == "%":
                node = Quotient(node, Number(Fraction(100)))
            elif name == "'":
                node = Symbol(node.name + "'") if isinstance(node, Symbol) else node
            elif self.here() == "!":
                self.take()
                node = Call("factorial2", (node,))
            else:
                node = Call("factorial", (node,))
        return node

    def primary(self) -> Node:
        token = self.take()
        match token.kind:
            case "number":
                return self.number(token)
            case "letter" | "roman":
                return self.letter(token.text)
            case "(" | "[" | "{" | "\\{" | "begin":
                return self.enclosed(self.at - 1)
            case "|":
                return self._absolute()
            case "command":
                return self.command(token.text)
            case _:
                raise Unreadable(f"'{token.text}' is no mathematics")

    def _absolute(self) -> Node:
        self.bars += 1
        self.deeper()
        node = self.sum()
        self.depth -= 1
        if self.here() != "|":
            raise Unreadable("a bar is not closed")
        self.take()
        self.bars -= 1
        return measured("abs", (node,))


def _with_sign(sign: str, node: Node) -> Node:
    if sign in ("pm", "mp"):
        return Product((Sign(1 if sign == "pm" else -1), node))
    return negative(node) if sign == "-" else node


def infix(tokens: list[Token], mode: Mode, depth: int, inside: Inside) -> Node:
    """A run of tokens as one expression, TeX's own \\over and \\choose included."""
    runs, marks = split(tokens, INFIXES)
    if len(runs) == 1:
        return Parser(tokens, mode, depth, inside).whole()
    if len(runs) > 2:
        raise Unreadable("more than one \\over")
    over, under = (Parser(run, mode, depth, inside).whole() for run in runs)
    return Quotient(over, under) if marks[0].text == "over" else Call("binomial", (over, under))
