"""Third pass: interpolates ${vars.NAME} and ${matrix.NAME}.

A value that consists of a single variable takes the variable's type.
"""

import re
from dataclasses import replace

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE, minimal_recipe
from posttrain.compiler.parsing.matrix import Leg
from posttrain.compiler.text.yaml_tree import Entry, MappingNode, Node, ScalarNode, SequenceNode
from posttrain.spec.diagnostic import Code, Label
from posttrain.spec.suggestions import hint

UNKNOWN_VARIABLE = Code(
    "PT0121",
    "unknown variable",
    "error",
    "${vars.NAME} inserts a value of the section `vars`, and ${matrix.NAME} a value of the current leg of the"
    " matrix. Other names are not allowed between ${ and }. Write $${ for a literal ${.",
    wrong=minimal_recipe(("count: 200", 'count: "${vars.rows}"')),
    right=minimal_recipe(
        ("name: demo", "name: demo\nvars: {rows: 200}"), ("count: 200", 'count: "${vars.rows}"')
    ),
)
CIRCULAR_VARIABLE = Code(
    "PT0122",
    "circular variable reference",
    "error",
    "A variable can refer to other variables, but not to itself, directly or through others.",
    wrong=minimal_recipe(("name: demo", 'name: demo\nvars: {a: "${vars.b}", b: "${vars.a}"}')),
    right=MINIMAL_RECIPE,
)
LARGE_VARIABLE = Code(
    "PT0123",
    "variable expansion is too large",
    "error",
    "The interpolated text is longer than the limit for a recipe. Variables that refer to other variables"
    " several times can grow exponentially.",
    wrong=minimal_recipe(
        (
            "name: demo",
            "name: demo\nvars:\n  v0: 0123456789abcdef\n"
            + "".join(f'  v{i}: "{f"${{vars.v{i - 1}}}" * 8}"\n' for i in range(1, 7))
            + 'description: "${vars.v6}"',
        ),
    ),
    right=MINIMAL_RECIPE,
)
CODES = (UNKNOWN_VARIABLE, CIRCULAR_VARIABLE, LARGE_VARIABLE)
_MAX_TEXT = 1_000_000
# The limits for nested references between variables, and for the labels of a diagnostic.
_MAX_NESTING, _MAX_LABELS = 64, 8
_REFERENCE = re.compile(r"\$?\$\{([^{}]*)\}")
_UNCLOSED = re.compile(r"(?<!\$)\$\{[^{}]*\Z")


def interpolate(root: MappingNode, leg: Leg, used: set[str], diagnostics: Diagnostics) -> MappingNode:
    """The tree of one leg with interpolated variables. Adds the names of used variables to `used`."""
    entry = root.entries.get("vars")
    declared = entry.node if entry and isinstance(entry.node, MappingNode) else None
    filler = _Interpolator(declared, leg, used, diagnostics)
    filled = filler.fill(root)
    assert isinstance(filled, MappingNode)
    return filled


class _Interpolator:
    def __init__(
        self, declared: MappingNode | None, leg: Leg, used: set[str], diagnostics: Diagnostics
    ) -> None:
        self.leg = leg
        self.used = used
        self.raw = declared.entries if declared else {}
        self.resolved: dict[str, ScalarNode | None] = {}
        self.in_progress: list[str] = []
        self.diagnostics = diagnostics
        # The total length of interpolated texts.
        self.inserted_chars = 0

    def fill(self, node: Node) -> Node:
        match node:
            case ScalarNode():
                return self._interpolate_scalar(node)
            case SequenceNode():
                return replace(node, items=tuple(self.fill(item) for item in node.items))
            case MappingNode():
                entries = {k: Entry(e.key_span, self.fill(e.node)) for k, e in node.entries.items()}
                return replace(node, entries=entries)

    def _interpolate_scalar(self, leaf: ScalarNode) -> ScalarNode:
        if not isinstance(leaf.value, str) or "${" not in leaf.value:
            return leaf
        whole = _REFERENCE.fullmatch(leaf.value)
        if whole and not leaf.value.startswith("$$"):
            found = self._resolve_variable(whole[1], leaf)
            return self._with_provenance(leaf, found, found.value) if found else leaf
        if _UNCLOSED.search(leaf.value):
            self.diagnostics.add_at_span(
                UNKNOWN_VARIABLE, leaf.span, "`${` without `}`", help="write ${vars.NAME}"
            )
            self.diagnostics.suppress(leaf.span)
            return leaf
        used: list[ScalarNode] = []

        def text(match: re.Match[str]) -> str:
            if match[0].startswith("$$"):
                return match[0][1:]
            found = self._resolve_variable(match[1], leaf)
            if found is None:
                return match[0]
            used.append(found)
            return found.text

        filled = _REFERENCE.sub(text, leaf.value)
        self.inserted_chars += len(filled)
        if len(filled) > _MAX_TEXT or self.inserted_chars > 8 * _MAX_TEXT:
            return self._too_large(leaf)
        labels = tuple(Label(var.span, "the variable's value") for var in used)
        return replace(leaf, value=filled, text=filled, via=(*leaf.via, *labels))

    def _too_large(self, leaf: ScalarNode) -> ScalarNode:
        if self.inserted_chars <= 9 * _MAX_TEXT:  # report it once: later errors have the same cause
            message = "the interpolated variables exceed the text limit of a recipe"
            self.diagnostics.add_at_span(LARGE_VARIABLE, leaf.span, message)
        self.inserted_chars = 10 * _MAX_TEXT
        self.diagnostics.suppress(leaf.span)
        return replace(leaf, value="", text="")

    def _with_provenance(
        self, leaf: ScalarNode, found: ScalarNode, value: str | int | float | bool | None
    ) -> ScalarNode:
        if self.diagnostics.is_suppressed(found.span):
            self.diagnostics.suppress(leaf.span)
        label = Label(found.span, "the variable's value")
        via = (*leaf.via, label, *found.via)[:_MAX_LABELS]
        return ScalarNode(value, leaf.span, found.text, found.plain, via)

    def _resolve_variable(self, name: str, use: ScalarNode) -> ScalarNode | None:
        section, _, key = name.strip().partition(".")
        if section == "matrix" and key in self.leg.values:
            self.used.add(f"matrix.{key}")
            return self.leg.values[key]
        if section == "matrix" and self.leg.invalid:
            self.diagnostics.suppress(use.span)
            return None
        if section != "vars" or key not in self.raw:
            axes = [f"matrix.{axis}" for axis in self.leg.values]
            legal = [*(f"vars.{known}" for known in self.raw), *axes]
            help, _ = hint(name, legal, what="variables")
            if section in ("env", "") or not key:
                more = (
                    "environment variables are not available: declare the name under `vars` and run with"
                    " `--set vars.NAME=VALUE`"
                )
                help = more if not help.startswith("did you mean") else help
            self.diagnostics.add_at_span(
                UNKNOWN_VARIABLE, use.span, f"unknown variable `${{{name}}}`", help=help
            )
            self.diagnostics.suppress(use.span)
            return None
        self.used.add(f"vars.{key}")
        if key in self.in_progress:
            cycle = " -> ".join((*self.in_progress, key))
            self.diagnostics.add_at_span(CIRCULAR_VARIABLE, use.span, f"circular variable reference: {cycle}")
            self.diagnostics.suppress(use.span)
            return None
        if len(self.in_progress) >= _MAX_NESTING:
            message = f"more than {_MAX_NESTING} nested variable references"
            self.diagnostics.add_at_span(LARGE_VARIABLE, use.span, message)
            self.resolved[key] = None
        if key not in self.resolved:
            node = self.raw[key].node
            self.in_progress.append(key)
            # A variable that is not a scalar is reported by the validation of `vars`.
            self.resolved[key] = self._interpolate_scalar(node) if isinstance(node, ScalarNode) else None
            self.in_progress.pop()
        if self.resolved[key] is None:
            self.diagnostics.suppress(use.span)
        return self.resolved[key]
