"""Merges one tree over another, for `extends`, profiles and --set."""

from dataclasses import replace

from posttrain.compiler.text.yaml_tree import Entry, MappingNode, Node, ScalarNode
from posttrain.spec.diagnostic import Label, Span

# A mapping can be in every one of many extended files.
_MAX_LABELS = 4


def overlay(base: Node, over: Node) -> Node:
    """Merge `over` over `base`: mappings merge key by key, a null removes an existing key, and other values
    are replaced."""
    if not (isinstance(base, MappingNode) and isinstance(over, MappingNode)):
        return _with_provenance(over, Label(base.span, "replaces this value"))
    entries = dict(base.entries)
    removed = dict(base.removed or {})
    for key, entry in over.entries.items():
        below = entries.get(key)
        if below and isinstance(entry.node, ScalarNode) and entry.node.value is None:
            del entries[key]
            removed[key] = entry.key_span
            continue
        node = overlay(below.node, entry.node) if below else entry.node
        # The place of a declaration stays where it is written when an overlay changes a value in it.
        is_merged = below and isinstance(below.node, MappingNode) and isinstance(entry.node, MappingNode)
        entries[key] = Entry(below.key_span if below and is_merged else entry.key_span, node)
    # The span of the base, because most of the merged mapping is there.
    changed = tuple(Label(entry.key_span, "changed here") for entry in list(over.entries.values())[:1])
    return MappingNode(entries, base.span, (*base.via, *changed)[-_MAX_LABELS:], removed or None)


def nested_mapping(path: list[str], span: Span, node: Node) -> Node:
    """A mapping that contains only `node`, at a path."""
    for key in reversed(path):
        node = MappingNode({key: Entry(span, node)}, span)
    return node


def drop_keys(root: MappingNode, *keys: str) -> MappingNode:
    remaining = {key: entry for key, entry in root.entries.items() if key not in keys}
    return MappingNode(remaining, root.span, root.via)


def _with_provenance(node: Node, label: Label) -> Node:
    return replace(node, via=(*node.via, label))
