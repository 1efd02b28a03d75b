"""Third pass: fills ${vars.NAME} and ${matrix.NAME} in.

A value that is nothing but one variable takes the variable's own type.
"""

import re
from dataclasses import replace

from posttrain.compiler.diagnosis.examples import MINIMAL, minimal
from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.diagnosis.suggest import hint
from posttrain.compiler.reading.matrix import Leg
from posttrain.compiler.text.tree import Entry, Leaf, Listed, Mapped, Node
from posttrain.spec.diagnostic import Code, Label

UNKNOWN_VARIABLE = Code(
    "PT0121",
    "an unknown variable",
    "error",
    "${vars.NAME} stands for a value of the section `vars`, ${matrix.NAME} for the leg's value. Nothing else"
    " can stand between ${ and }."
    " Write $${ for a literal ${.",
    wrong=minimal(("count: 200", 'count: "${vars.rows}"')),
    right=minimal(("name: demo", "name: demo\nvars: {rows: 200}"), ("count: 200", 'count: "${vars.rows}"')),
)
CIRCULAR_VARIABLE = Code(
    "PT0122",
    "variables that stand for each other",
    "error",
    "A variable may name other variables, but not, by any way round, itself.",
    wrong=minimal(("name: demo", 'name: demo\nvars: {a: "${vars.b}", b: "${vars.a}"}')),
    right=MINIMAL,
)
LARGE_VARIABLE = Code(
    "PT0123",
    "variables that grow without bound",
    "error",
    "A value with its variables filled in is longer than a recipe may be: variables that name one another"
    " twice double with each step.",
    wrong=minimal(
        (
            "name: demo",
            "name: demo\nvars:\n  v0: 0123456789abcdef\n"
            + "".join(f'  v{i}: "{f"${{vars.v{i - 1}}}" * 8}"\n' for i in range(1, 7))
            + 'description: "${vars.v6}"',
        ),
    ),
    right=MINIMAL,
)
CODES = (UNKNOWN_VARIABLE, CIRCULAR_VARIABLE, LARGE_VARIABLE)
_MOST_TEXT = 1_000_000
# Variables that stand for others, one within another; and the places that a diagnostic shows of them.
_MOST_WITHIN, _MOST_PLACES = 64, 8
_USE = re.compile(r"\$?\$\{([^{}]*)\}")
_NOT_CLOSED = re.compile(r"(?<!\$)\$\{[^{}]*\Z")


def interpolate(root: Mapped, leg: Leg, used: set[str], findings: Findings) -> Mapped:
    """The tree of one leg, with all variables filled in; `used` gains the names it needed."""
    entry = root.entries.get("vars")
    declared = entry.node if entry and isinstance(entry.node, Mapped) else None
    filler = _Filler(declared, leg, used, findings)
    filled = filler.fill(root)
    assert isinstance(filled, Mapped)
    return filled


class _Filler:
    def __init__(self, declared: Mapped | None, leg: Leg, used: set[str], findings: Findings) -> None:
        self.leg = leg
        self.used = used
        self.raw = declared.entries if declared else {}
        self.done: dict[str, Leaf | None] = {}
        self.under_way: list[str] = []
        self.findings = findings
        # Characters of text that variables were put into.
        self.grown = 0

    def fill(self, node: Node) -> Node:
        match node:
            case Leaf():
                return self._leaf(node)
            case Listed():
                return replace(node, items=tuple(self.fill(item) for item in node.items))
            case Mapped():
                entries = {k: Entry(e.key_span, self.fill(e.node)) for k, e in node.entries.items()}
                return replace(node, entries=entries)

    def _leaf(self, leaf: Leaf) -> Leaf:
        if not isinstance(leaf.value, str) or "${" not in leaf.value:
            return leaf
        whole = _USE.fullmatch(leaf.value)
        if whole and not leaf.value.startswith("$$"):
            found = self._variable(whole[1], leaf)
            return self._through(leaf, found, found.value) if found else leaf
        if _NOT_CLOSED.search(leaf.value):
            self.findings.at_span(
                UNKNOWN_VARIABLE, leaf.span, "a `${` here has no `}`", help="write ${vars.NAME}"
            )
            self.findings.refuse(leaf.span)
            return leaf
        used: list[Leaf] = []

        def text(match: re.Match[str]) -> str:
            if match[0].startswith("$$"):
                return match[0][1:]
            found = self._variable(match[1], leaf)
            if found is None:
                return match[0]
            used.append(found)
            return found.text

        filled = _USE.sub(text, leaf.value)
        self.grown += len(filled)
        if len(filled) > _MOST_TEXT or self.grown > 8 * _MOST_TEXT:
            return self._too_large(leaf)
        labels = tuple(Label(var.span, "the variable's value") for var in used)
        return replace(leaf, value=filled, text=filled, via=(*leaf.via, *labels))

    def _too_large(self, leaf: Leaf) -> Leaf:
        if self.grown <= 9 * _MOST_TEXT:  # once: what comes after it has the same cause
            message = "the variables in this value fill more text than a recipe may hold"
            self.findings.at_span(LARGE_VARIABLE, leaf.span, message)
        self.grown = 10 * _MOST_TEXT
        self.findings.refuse(leaf.span)
        return replace(leaf, value="", text="")

    def _through(self, leaf: Leaf, found: Leaf, value: str | int | float | bool | None) -> Leaf:
        if self.findings.refused(found.span):
            self.findings.refuse(leaf.span)
        label = Label(found.span, "the variable's value")
        via = (*leaf.via, label, *found.via)[:_MOST_PLACES]
        return Leaf(value, leaf.span, found.text, found.plain, via)

    def _variable(self, name: str, use: Leaf) -> Leaf | None:
        section, _, key = name.strip().partition(".")
        if section == "matrix" and key in self.leg.values:
            self.used.add(f"matrix.{key}")
            return self.leg.values[key]
        if section == "matrix" and self.leg.broken:
            self.findings.refuse(use.span)
            return None
        if section != "vars" or key not in self.raw:
            axes = [f"matrix.{axis}" for axis in self.leg.values]
            legal = [*(f"vars.{known}" for known in self.raw), *axes]
            help, _ = hint(name, legal, what="variables")
            if section in ("env", "") or not key:
                more = "the environment is not read: declare it under `vars`, and give --set vars.NAME=VALUE"
                help = more if not help.startswith("did you mean") else help
            self.findings.at_span(UNKNOWN_VARIABLE, use.span, f"`${{{name}}}` names no variable", help=help)
            self.findings.refuse(use.span)
            return None
        self.used.add(f"vars.{key}")
        if key in self.under_way:
            circle = " -> ".join((*self.under_way, key))
            self.findings.at_span(CIRCULAR_VARIABLE, use.span, f"variables in a circle: {circle}")
            self.findings.refuse(use.span)
            return None
        if len(self.under_way) >= _MOST_WITHIN:
            message = f"more than {_MOST_WITHIN} variables stand for one another here"
            self.findings.at_span(LARGE_VARIABLE, use.span, message)
            self.done[key] = None
        if key not in self.done:
            node = self.raw[key].node
            self.under_way.append(key)
            # A variable that is no scalar is reported where `vars` is checked for its shape.
            self.done[key] = self._leaf(node) if isinstance(node, Leaf) else None
            self.under_way.pop()
        if self.done[key] is None:
            self.findings.refuse(use.span)
        return self.done[key]
