"""The smallest parts of an expression: numbers, letters, commands and their arguments."""

from fractions import Fraction

from posttrain.runtime.grading.bound import binder
from posttrain.runtime.grading.brackets import closing
from posttrain.runtime.grading.cursor import Cursor, Mode
from posttrain.runtime.grading.letters import FUNCTIONS, GREEK
from posttrain.runtime.grading.matrices import measured
from posttrain.runtime.grading.numerals import based, literal, mixed_part, repeating
from posttrain.runtime.grading.rebuild import rebuilt
from posttrain.runtime.grading.tokens import Token
from posttrain.runtime.grading.tree import (
    PI,
    Call,
    Constant,
    Group,
    NamedSet,
    Node,
    Number,
    Power,
    Product,
    Quotient,
    Sum,
    Symbol,
    Unknown,
    holds,
    negative,
    symbols,
)

NAMED_SETS = frozenset(("reals", "integers", "naturals", "rationals", "complexes", "emptyset"))
NAMES = frozenset(GREEK.values()) | {"ell", "hbar", "nabla", "partial", "epsilon"}
ACCENTS = frozenset(("overline", "widehat", "widetilde", "bar", "dot", "ddot"))
BRACKETS = frozenset(("langle", "lfloor", "lceil"))
IGNORED = frozenset(("angle", "triangle", "prime"))
PERIODS = frozenset(("overline", "dot", "bar"))
CIRCULAR = frozenset(("sin", "cos", "tan", "cot", "sec", "csc"))
CONSTANTS: dict[str, Node] = {"pi": PI, "infty": Constant("infinity")}
DIFFERENTIAL = Symbol("d")
HALF = Number(Fraction(1, 2))


class Atoms(Cursor):
    def number(self, token: Token) -> Node:
        if self.here() == "_":
            self.take()
            return based(token.text, self.subscript())
        if self.here() in PERIODS or self._digits_in_brackets(token):
            return self._periodic(token)
        if self.here() == "ldots" and "." in token.text:
            self.take()
            return literal(token.text, cut=True)
        taken, part = mixed_part(token, self.tokens, self.at)
        self.at += taken
        number = literal(token.text)
        return Sum((number, part)) if part else number

    def _digits_in_brackets(self, token: Token) -> bool:
        marks = [self.here(), self.here(1), self.here(2)]
        fits = token.text.startswith("0.") and marks == ["(", "number", ")"]
        return fits and not self.tokens[self.at].spaced

    def _periodic(self, token: Token) -> Node:
        period = ""
        while self.here() in PERIODS or self.here() in ("(", "number"):
            if self.here() == "number":
                period += self.take().text
                continue
            self.at += self.here() != "("
            end = closing(self.tokens, self.at) if self.here() in ("{", "(") else self.at
            period += "".join(part.text for part in self.tokens[self.at : end + 1]).strip("{}()")
            self.at = end + 1
        return repeating(token.text, period)

    def letter(self, name: str) -> Node:
        if self.here() == "_":
            return self._subscripted(name)
        if name == "C" and self.here() == "(":
            return self._chosen()
        applied = self.here() == "(" or (self.here() == "{" and self.here(1) == "(")
        if name in "fghFGH" and applied and not self.tokens[self.at].spaced:
            return Call(":" + name, self.arguments())
        return Constant(name) if name in ("e", "i") else Symbol(name)

    def _subscripted(self, name: str) -> Node:
        if self.here() != "_":
            return Symbol(name)
        self.take()
        return Symbol(f"{name}_{self.subscript()}")

    def _chosen(self) -> Node:
        """C(5, 2) counts combinations; C(x) is C times x."""
        start = self.at
        group = self.bracketed()
        if isinstance(group, Group) and len(group.items) == 2:
            return Call("binomial", group.items)
        self.at = start
        return Symbol("C")

    def command(self, name: str) -> Node:
        if name in CONSTANTS:
            return CONSTANTS[name]
        if name in FUNCTIONS:
            return self.function(FUNCTIONS[name])
        if name in NAMED_SETS:
            return NamedSet("empty" if name == "emptyset" else name)
        if name in BRACKETS:
            return self.enclosed(self.at - 1)
        if name == "overline" and (turned := self._conjugate()):
            return turned
        if name in ACCENTS:
            return self._subscripted(f"{name} {self.subscript()}")
        if name in IGNORED:
            return self.operand()
        if name in NAMES or (len(name) == 1 and name.isalpha()):
            return self.letter(name)
        return self._built(name)

    def _conjugate(self) -> Node | None:
        """Of a number with i in it; a bar over letters is part of a name."""
        start = self.at
        inside = self.bracketed() if self.here() == "{" else None
        if inside is not None and holds(inside, Constant) and not symbols(inside):
            return rebuilt(inside, lambda leaf: negative(leaf) if leaf == Constant("i") else leaf)
        self.at = start
        return None

    def _built(self, name: str) -> Node:
        match name:
            case "frac":
                return _fraction(self._piece(), self._piece())
            case "binom":
                return Call("binomial", (self._piece(), self._piece()))
            case "sum" | "prod" | "int" | "lim":
                return binder(self, name)
            case "cbrt":
                return Call("root", (self.operand(), Number(Fraction(3))))
            case "sqrt" if self.here() == "[":
                degree = self.bracketed()
                return Call("root", (self.operand(), degree))
            case "sqrt":
                return Power(self.operand(), HALF)
            case _:
                raise Unknown(f"\\{name}")

    def _piece(self) -> Node:
        """An argument of \\frac: braces, or one digit, or one token."""
        if self.here() != "number":
            return self.operand()
        text = self.tokens[self.at].text
        if len(text) > 1 and text.isdigit():
            self.tokens[self.at] = Token("number", text[1:])
            return literal(text[0])
        return literal(self.take().text)

    def function(self, name: str) -> Node:
        """A function with its power, base and argument: \\sin^2 x, \\log_2 8, \\ln 2x."""
        self.deeper()
        base, exponent = None, None
        while self.here() in ("_", "^", "**"):
            if self.take().text == "_":
                base = self._lone()
            else:
                exponent = self._lone()
        arguments = self._function_arguments()
        if exponent == Number(Fraction(-1)) and name in CIRCULAR:
            name, exponent = "a" + name, None
        name = _logarithm(name, base is not None, self.mode)
        node = measured(name, (*arguments, base) if base else arguments)
        self.depth -= 1
        return node if exponent is None else Power(node, exponent)

    def _lone(self) -> Node:
        if self.here() == "{":
            return self.bracketed()
        sign = self.take().text if self.here() == "-" else ""
        node = self.operand() if self.here() != "number" else literal(self.take().text)
        return negative(node) if sign else node

    def _function_arguments(self) -> tuple[Node, ...]:
        if self.here() in ("(", "[", "{", "\\{"):
            return self.arguments()
        negated = self.here() == "-"
        self.at += negated
        node = self.power()
        while self.starts() and self.here() not in FUNCTIONS and self.here() not in ("(", "["):
            node = times(node, self.power())
        if self.here() == "/" and self.here(1) == "number" and (self.mode.tight or node == PI):
            self.take()
            node = Quotient(node, self.power())
        return (negative(node) if negated else node,)


def _fraction(over: Node, under: Node) -> Node:
    if over == DIFFERENTIAL and isinstance(under, Product) and under.factors[0] == DIFFERENTIAL:
        raise Unknown("d/dx")
    return Quotient(over, under)


def times(left: Node, right: Node) -> Node:
    return Product((*left.factors, right)) if isinstance(left, Product) else Product((left, right))


def _logarithm(name: str, based: bool, mode: Mode) -> str:
    if name == "lg" or (name == "log" and mode.common and not based):
        return "log10"
    return "ln" if name == "log" else name
