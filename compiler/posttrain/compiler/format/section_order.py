"""Orders sections, and normalizes the empty lines between them."""

from dataclasses import replace

from posttrain.compiler.format.yaml_syntax import Document, Entry, ScalarText, SyntaxNode
from posttrain.spec.declaration_fields import keys_of
from posttrain.spec.recipe import Recipe


def canonical_section_order() -> list[str]:
    """The sections in declaration order, with `extends` after the header key and `matrix` after `vars`."""
    declared = keys_of(Recipe)
    after = declared.index("vars") + 1
    return ["<<", declared[0], "extends", *declared[1:after], "matrix", *declared[after:]]


def arrange_sections(document: Document) -> Document:
    """The document with its sections in order, unless an alias would come before its anchor."""
    ranks = {name: rank for rank, name in enumerate(canonical_section_order())}
    entries = document.root.entries
    known = sorted((entry for entry in entries if entry.key in ranks), key=lambda entry: ranks[entry.key])
    others = [entry for entry in entries if entry.key not in ranks and entry.key != "profiles"]
    last = [entry for entry in entries if entry.key == "profiles"]
    moved = (*known, *others, *last)
    ordered = moved if _anchors_precede_aliases(moved) else entries
    spaced = tuple(
        _with_blank_lines(entry, ordered[place - 1] if place else None) for place, entry in enumerate(ordered)
    )
    head = document.head[1:] if document.head[:1] == ("",) else document.head
    return replace(document, root=replace(document.root, entries=spaced), head=head)


def _with_blank_lines(entry: Entry, above: Entry | None) -> Entry:
    """One empty line before a section, but none between sections of one line."""
    lead = [text for place, text in enumerate(entry.lead) if text or place]
    while lead and not lead[-1]:
        lead.pop()
    if above is None:
        return replace(entry, lead=tuple(lead))
    apart = entry.lead[:1] == ("",) or not (_is_scalar_section(entry) and _is_scalar_section(above))
    return replace(entry, lead=("", *lead) if apart else tuple(lead))


def _is_scalar_section(entry: Entry) -> bool:
    return isinstance(entry.value, ScalarText)


def _anchors_precede_aliases(entries: tuple[Entry, ...]) -> bool:
    known: set[str] = set()
    return all(_aliases_resolve(entry.value, known) for entry in entries)


def _aliases_resolve(node: SyntaxNode, known: set[str]) -> bool:
    if isinstance(node, ScalarText):
        known |= {node.anchor} if node.anchor else set()
        return not node.text.startswith("*") or node.text[1:] in known
    good = all(_aliases_resolve(entry.value, known) for entry in node.entries)
    known |= {node.anchor} if node.anchor else set()
    return good
