"""Formats a recipe, and verifies that its content is unchanged."""

from dataclasses import dataclass
from typing import Any

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.format.section_order import arrange_sections
from posttrain.compiler.format.yaml_layout import OutputLine, block_lines, join_lines
from posttrain.compiler.format.yaml_syntax import (
    Document,
    UnsafeRewriteError,
    collect_comments_and_anchors,
    read_syntax,
)
from posttrain.compiler.parsing.parse import parse
from posttrain.compiler.text.compile_request import SourceFile
from posttrain.compiler.text.yaml_tree import MappingNode, Node, ScalarNode, SequenceNode
from posttrain.spec.diagnostic import Diagnostic


@dataclass(frozen=True, kw_only=True)
class FormatResult:
    """The formatted text, or None with the diagnostics or the reason for not formatting the file."""

    text: str | None
    diagnostics: tuple[Diagnostic, ...] = ()
    reason: str = ""


def format_recipe(source: SourceFile) -> FormatResult:
    diagnostics = Diagnostics()
    tree = parse(source, diagnostics)
    if tree is None or diagnostics.has_errors:
        return FormatResult(text=None, diagnostics=tuple(diagnostics.collected))
    text = source.data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    try:
        document = read_syntax(text)
    except UnsafeRewriteError as unsafe:
        return FormatResult(text=None, reason=str(unsafe))
    formatted = _render_document(document)
    again = Diagnostics()
    after = parse(SourceFile(source.name, formatted.encode()), again)
    same = after is not None and not again.has_errors and _recipe_content(after) == _recipe_content(tree)
    if not same or collect_comments_and_anchors(formatted) != document.comments_and_anchors:
        return FormatResult(text=None, reason="formatting would change its content or its comments")
    return FormatResult(text=formatted)


def _render_document(document: Document) -> str:
    arrangement = arrange_sections(document)
    return join_lines([*(OutputLine(line) for line in arrangement.head), *block_lines(arrangement.root, 0)])


def _recipe_content(tree: MappingNode) -> Any:
    """The content of a file for comparison. Order matters except for sections."""
    return {key: _node_content(entry.node) for key, entry in tree.entries.items()}


def _node_content(node: Node) -> Any:
    match node:
        case ScalarNode():
            return (type(node.value).__name__, repr(node.value))
        case MappingNode():
            return [(key, _node_content(entry.node)) for key, entry in node.entries.items()]
        case SequenceNode():
            return [_node_content(item) for item in node.items]
