"""Parses the atoms of an expression: numbers, letters, commands and their arguments."""

from fractions import Fraction

from posttrain.grading.binders import parse_binder
from posttrain.grading.brackets import closing_index
from posttrain.grading.expression_tree import (
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
    UnsupportedNotation,
    contains_node,
    negate,
    symbols,
)
from posttrain.grading.latex_tokens import Token
from posttrain.grading.matrices import apply_matrix_function
from posttrain.grading.number_literals import parse_based, parse_mixed_part, parse_number, parse_repeating
from posttrain.grading.token_cursor import ParseMode, TokenCursor
from posttrain.grading.tree_transform import map_leaves
from posttrain.grading.unicode_tables import FUNCTIONS, GREEK

NAMED_SETS = frozenset(("reals", "integers", "naturals", "rationals", "complexes", "emptyset"))
SYMBOL_NAMES = frozenset(GREEK.values()) | {"ell", "hbar", "nabla", "partial", "epsilon"}
ACCENTS = frozenset(("overline", "widehat", "widetilde", "bar", "dot", "ddot"))
BRACKETS = frozenset(("langle", "lfloor", "lceil"))
IGNORED = frozenset(("angle", "triangle", "prime"))
REPEATING_MARKS = frozenset(("overline", "dot", "bar"))
TRIGONOMETRIC = frozenset(("sin", "cos", "tan", "cot", "sec", "csc"))
CONSTANTS: dict[str, Node] = {"pi": PI, "infty": Constant("infinity")}
DIFFERENTIAL = Symbol("d")
HALF = Number(Fraction(1, 2))


class AtomParser(TokenCursor):
    def number(self, token: Token) -> Node:
        if self.peek() == "_":
            self.take()
            return parse_based(token.text, self.subscript())
        if self.peek() in REPEATING_MARKS or self._digits_in_brackets(token):
            return self._repeating_decimal(token)
        if self.peek() == "ldots" and "." in token.text:
            self.take()
            return parse_number(token.text, truncated=True)
        token_count, part = parse_mixed_part(token, self.tokens, self.position)
        self.position += token_count
        number = parse_number(token.text)
        return Sum((number, part)) if part else number

    def _digits_in_brackets(self, token: Token) -> bool:
        marks = [self.peek(), self.peek(1), self.peek(2)]
        is_repeating = token.text.startswith("0.") and marks == ["(", "number", ")"]
        return is_repeating and not self.tokens[self.position].spaced

    def _repeating_decimal(self, token: Token) -> Node:
        period = ""
        while self.peek() in REPEATING_MARKS or self.peek() in ("(", "number"):
            if self.peek() == "number":
                period += self.take().text
                continue
            self.position += self.peek() != "("
            end = closing_index(self.tokens, self.position) if self.peek() in ("{", "(") else self.position
            period += "".join(part.text for part in self.tokens[self.position : end + 1]).strip("{}()")
            self.position = end + 1
        return parse_repeating(token.text, period)

    def letter(self, name: str) -> Node:
        if self.peek() == "_":
            return self._subscripted(name)
        if name == "C" and self.peek() == "(":
            return self._combinations()
        applied = self.peek() == "(" or (self.peek() == "{" and self.peek(1) == "(")
        if name in "fghFGH" and applied and not self.tokens[self.position].spaced:
            return Call(":" + name, self.arguments())
        return Constant(name) if name in ("e", "i") else Symbol(name)

    def _subscripted(self, name: str) -> Node:
        if self.peek() != "_":
            return Symbol(name)
        self.take()
        return Symbol(f"{name}_{self.subscript()}")

    def _combinations(self) -> Node:
        """C(5, 2) is a binomial coefficient, but C(x) is C times x."""
        start = self.position
        group = self.read_bracketed()
        if isinstance(group, Group) and len(group.items) == 2:
            return Call("binomial", group.items)
        self.position = start
        return Symbol("C")

    def command(self, name: str) -> Node:
        if name in CONSTANTS:
            return CONSTANTS[name]
        if name in FUNCTIONS:
            return self.function(FUNCTIONS[name])
        if name in NAMED_SETS:
            return NamedSet("empty" if name == "emptyset" else name)
        if name in BRACKETS:
            return self.read_enclosed(self.position - 1)
        if name == "overline" and (conjugate := self._conjugate()):
            return conjugate
        if name in ACCENTS:
            return self._subscripted(f"{name} {self.subscript()}")
        if name in IGNORED:
            return self.operand()
        if name in SYMBOL_NAMES or (len(name) == 1 and name.isalpha()):
            return self.letter(name)
        return self._structured_command(name)

    def _conjugate(self) -> Node | None:
        """The conjugate of a number that contains i. A bar over other letters is part of a name."""
        start = self.position
        inside = self.read_bracketed() if self.peek() == "{" else None
        if inside is not None and contains_node(inside, Constant) and not symbols(inside):
            return map_leaves(inside, lambda leaf: negate(leaf) if leaf == Constant("i") else leaf)
        self.position = start
        return None

    def _structured_command(self, name: str) -> Node:
        match name:
            case "frac":
                return _fraction(self._frac_argument(), self._frac_argument())
            case "binom":
                return Call("binomial", (self._frac_argument(), self._frac_argument()))
            case "sum" | "prod" | "int" | "lim":
                return parse_binder(self, name)
            case "cbrt":
                return Call("root", (self.operand(), Number(Fraction(3))))
            case "sqrt" if self.peek() == "[":
                degree = self.read_bracketed()
                return Call("root", (self.operand(), degree))
            case "sqrt":
                return Power(self.operand(), HALF)
            case _:
                raise UnsupportedNotation(f"\\{name}")

    def _frac_argument(self) -> Node:
        """An argument of \\frac: a braced group, one digit, or one token."""
        if self.peek() != "number":
            return self.operand()
        text = self.tokens[self.position].text
        if len(text) > 1 and text.isdigit():
            self.tokens[self.position] = Token("number", text[1:])
            return parse_number(text[0])
        return parse_number(self.take().text)

    def function(self, name: str) -> Node:
        """A function with its power, base and argument: \\sin^2 x, \\log_2 8, \\ln 2x."""
        self.enter_level()
        base, exponent = None, None
        while self.peek() in ("_", "^", "**"):
            if self.take().text == "_":
                base = self._script_argument()
            else:
                exponent = self._script_argument()
        arguments = self._function_arguments()
        if exponent == Number(Fraction(-1)) and name in TRIGONOMETRIC:
            name, exponent = "a" + name, None
        name = _logarithm(name, base is not None, self.mode)
        node = apply_matrix_function(name, (*arguments, base) if base else arguments)
        self.depth -= 1
        return node if exponent is None else Power(node, exponent)

    def _script_argument(self) -> Node:
        if self.peek() == "{":
            return self.read_bracketed()
        sign = self.take().text if self.peek() == "-" else ""
        node = self.operand() if self.peek() != "number" else parse_number(self.take().text)
        return negate(node) if sign else node

    def _function_arguments(self) -> tuple[Node, ...]:
        if self.peek() in ("(", "[", "{", "\\{"):
            return self.arguments()
        negated = self.peek() == "-"
        self.position += negated
        node = self.power()
        while self.starts_factor() and self.peek() not in FUNCTIONS and self.peek() not in ("(", "["):
            node = multiply_nodes(node, self.power())
        if self.peek() == "/" and self.peek(1) == "number" and (self.mode.tight_products or node == PI):
            self.take()
            node = Quotient(node, self.power())
        return (negate(node) if negated else node,)


def _fraction(over: Node, under: Node) -> Node:
    if over == DIFFERENTIAL and isinstance(under, Product) and under.factors[0] == DIFFERENTIAL:
        raise UnsupportedNotation("d/dx")
    return Quotient(over, under)


def multiply_nodes(left: Node, right: Node) -> Node:
    return Product((*left.factors, right)) if isinstance(left, Product) else Product((left, right))


def _logarithm(name: str, based: bool, mode: ParseMode) -> str:
    if name == "lg" or (name == "log" and mode.log_base_10 and not based):
        return "log10"
    return "ln" if name == "log" else name
