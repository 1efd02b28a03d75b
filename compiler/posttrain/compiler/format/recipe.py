"""Formats a recipe, and checks that it still says the same."""

from dataclasses import dataclass
from typing import Any

from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.format.layout import Line, block, joined
from posttrain.compiler.format.sections import arranged
from posttrain.compiler.format.syntax import Document, Unsafe, read_syntax, unspoken
from posttrain.compiler.reading.parse import parse
from posttrain.compiler.text.source import Source
from posttrain.compiler.text.tree import Leaf, Listed, Mapped, Node
from posttrain.spec.diagnostic import Diagnostic


@dataclass(frozen=True, kw_only=True)
class Formatted:
    """The new text; or none, with the diagnostics or the reason why the file stays as it is."""

    text: str | None
    diagnostics: tuple[Diagnostic, ...] = ()
    reason: str = ""


def formatted(source: Source) -> Formatted:
    findings = Findings()
    tree = parse(source, findings)
    if tree is None or findings.failed:
        return Formatted(text=None, diagnostics=tuple(findings.found))
    text = source.data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    try:
        document = read_syntax(text)
    except Unsafe as unsafe:
        return Formatted(text=None, reason=str(unsafe))
    made = _written(document)
    again = Findings()
    after = parse(Source(source.name, made.encode()), again)
    same = after is not None and not again.failed and _said(after) == _said(tree)
    if not same or unspoken(made) != document.unspoken:
        return Formatted(text=None, reason="it is written in a way that cannot be rewritten safely")
    return Formatted(text=made)


def _written(document: Document) -> str:
    arrangement = arranged(document)
    return joined([*(Line(line) for line in arrangement.head), *block(arrangement.root, 0)])


def _said(tree: Mapped) -> Any:
    """What a file says, with the order of all but its sections."""
    return {key: _ordered(entry.node) for key, entry in tree.entries.items()}


def _ordered(node: Node) -> Any:
    match node:
        case Leaf():
            return (type(node.value).__name__, repr(node.value))
        case Mapped():
            return [(key, _ordered(entry.node)) for key, entry in node.entries.items()]
        case Listed():
            return [_ordered(item) for item in node.items]
