"""Parses tokens to a scalar: sums, products, powers. A recursive-descent parser with a depth limit."""

from fractions import Fraction

from posttrain.grading.atom_parser import AtomParser, multiply_nodes
from posttrain.grading.brackets import split_tokens
from posttrain.grading.expression_tree import (
    DEGREE,
    Call,
    Node,
    Number,
    ParseError,
    Power,
    Product,
    Quotient,
    Sign,
    Sum,
    Symbol,
    negate,
)
from posttrain.grading.latex_tokens import Token
from posttrain.grading.matrices import apply_matrix_function
from posttrain.grading.token_cursor import DIVISION_SIGNS, SIGNS, TIMES_SIGNS, ParseBracketed, ParseMode

POSTFIXES = frozenset(("!", "%", "'"))
INFIXES = frozenset(("over", "choose"))
RAISED_MARKS = frozenset(("circ", "prime"))


class ExpressionParser(AtomParser):
    def parse_all(self) -> Node:
        node = self.sum()
        if self.position < len(self.tokens):
            raise ParseError(f"unexpected '{self.tokens[self.position].text}'")
        return node

    def parse_tokens(self, tokens: list[Token]) -> Node:
        return ExpressionParser(tokens, self.mode, self.depth, self.parse_bracketed).parse_all()

    def sum(self) -> Node:
        terms = [self._term()]
        while self.peek() in SIGNS:
            terms.append(self._term())
        return terms[0] if len(terms) == 1 else Sum(tuple(terms))

    def _term(self) -> Node:
        signs: list[str] = []
        while self.peek() in SIGNS:
            signs.append(self.take().text)
        node = self.product()
        for sign in reversed(signs):
            node = _with_sign(sign, node)
        return node

    def product(self) -> Node:
        node = self.power()
        while True:
            name = self.peek()
            if name in TIMES_SIGNS:
                self.take()
                node = multiply_nodes(node, self._signed())
            elif name in DIVISION_SIGNS:
                self.take()
                node = Quotient(node, self._divisor())
            elif self.starts_factor():
                node = multiply_nodes(node, self.power())
            else:
                return node

    def _divisor(self) -> Node:
        node = self._signed()
        while self.mode.tight_products and self.starts_factor():
            node = multiply_nodes(node, self.power())
        return node

    def _signed(self) -> Node:
        sign = self.take().text if self.peek() in SIGNS else "+"
        return _with_sign(sign, self.power())

    def power(self) -> Node:
        self.enter_level()
        node = self._postfix(self.primary())
        while self.peek() in ("^", "**"):
            self.take()
            node = self._postfix(self._exponent(node))
        self.depth -= 1
        return node

    def _exponent(self, base: Node) -> Node:
        if self.peek() == "{" and self.peek(1) in RAISED_MARKS and self.peek(2) == "}":
            self.position += 3
            return multiply_nodes(base, DEGREE) if self.tokens[self.position - 2].text == "circ" else base
        if self.peek() in RAISED_MARKS:
            return multiply_nodes(base, DEGREE) if self.take().text == "circ" else base
        if self.peek() == "{":
            return Power(base, self.read_bracketed())
        sign = self.take().text if self.peek() in ("+", "-") else "+"
        return Power(base, _with_sign(sign, self.power()))

    def _postfix(self, node: Node) -> Node:
        while self.peek() in POSTFIXES:
            name = self.take().text
            if name == "%":
                node = Quotient(node, Number(Fraction(100)))
            elif name == "'":
                node = Symbol(node.name + "'") if isinstance(node, Symbol) else node
            elif self.peek() == "!":
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
                return self.read_enclosed(self.position - 1)
            case "|":
                return self._absolute()
            case "command":
                return self.command(token.text)
            case _:
                raise ParseError(f"'{token.text}' is not mathematics")

    def _absolute(self) -> Node:
        self.bars += 1
        self.enter_level()
        node = self.sum()
        self.depth -= 1
        if self.peek() != "|":
            raise ParseError("unclosed absolute value bar")
        self.take()
        self.bars -= 1
        return apply_matrix_function("abs", (node,))


def _with_sign(sign: str, node: Node) -> Node:
    if sign in ("pm", "mp"):
        return Product((Sign(1 if sign == "pm" else -1), node))
    return negate(node) if sign == "-" else node


def parse_infix(tokens: list[Token], mode: ParseMode, depth: int, parse_bracketed: ParseBracketed) -> Node:
    """Parse a run of tokens as one expression, including the infix commands \\over and \\choose of TeX."""
    runs, marks = split_tokens(tokens, INFIXES)
    if len(runs) == 1:
        return ExpressionParser(tokens, mode, depth, parse_bracketed).parse_all()
    if len(runs) > 2:
        raise ParseError("more than one \\over")
    over, under = (ExpressionParser(run, mode, depth, parse_bracketed).parse_all() for run in runs)
    return Quotient(over, under) if marks[0].text == "over" else Call("binomial", (over, under))
