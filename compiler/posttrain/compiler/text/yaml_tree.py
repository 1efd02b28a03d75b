"""The tree of a recipe: values with their source locations.

Every node has a span, and in `via` the overlays, variables or --set options that it came from.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from posttrain.spec.diagnostic import Label, Span

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class ScalarNode:
    value: str | int | float | bool | None
    span: Span
    # The text as written, and whether it has no quotes.
    text: str = ""
    plain: bool = True
    via: tuple[Label, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    key_span: Span
    node: "Node"


@dataclass(frozen=True, slots=True)
class MappingNode:
    entries: Mapping[str, Entry]
    span: Span
    via: tuple[Label, ...] = ()
    # The keys that an overlay removed with a null, and where; None if there are none.
    removed: Mapping[str, Span] | None = None


@dataclass(frozen=True, slots=True)
class SequenceNode:
    items: tuple["Node", ...]
    span: Span
    via: tuple[Label, ...] = field(default=())


Node = ScalarNode | MappingNode | SequenceNode


def child_node(node: Node, step: str | int) -> Node | None:
    if isinstance(node, MappingNode) and step in node.entries:
        return node.entries[str(step)].node
    if isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.items):
        return node.items[step]
    return None


def node_at(root: Node, path: Sequence[str | int]) -> tuple[Node, int]:
    """The deepest existing node along a path, and the number of path steps to it."""
    node = root
    for taken, step in enumerate(path):
        deeper = child_node(node, step)
        if deeper is None:
            return node, taken
        node = deeper
    return node, len(path)


def key_span(root: Node, path: Sequence[str | int]) -> Span:
    """The span of the last key of a path, or of its deepest existing node."""
    parent, taken = node_at(root, path[:-1])
    if taken == len(path) - 1 and isinstance(parent, MappingNode) and path[-1] in parent.entries:
        return parent.entries[str(path[-1])].key_span
    return node_at(root, path)[0].span


def removal_span(node: Node, key: str | int) -> Span | None:
    """The place of the null that removed a key of a mapping."""
    if isinstance(node, MappingNode) and node.removed and key not in node.entries:
        return node.removed.get(str(key))
    return None


def node_to_builtins(node: Node) -> Any:
    """The tree as dicts, lists and scalars."""
    match node:
        case ScalarNode():
            return node.value
        case MappingNode():
            return {key: node_to_builtins(entry.node) for key, entry in node.entries.items()}
        case SequenceNode():
            return [node_to_builtins(item) for item in node.items]


def walk_nodes(node: Node, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Node]]:
    """This node and all nodes below it, with their paths, in order."""
    yield path, node
    if isinstance(node, MappingNode):
        for key, entry in node.entries.items():
            yield from walk_nodes(entry.node, (*path, key))
    elif isinstance(node, SequenceNode):
        for index, item in enumerate(node.items):
            yield from walk_nodes(item, (*path, index))


def replace_node(root: Node, path: Sequence[str | int], node: Node) -> Node:
    """The tree with another node at an existing path."""
    if not path:
        return node
    step, rest = path[0], path[1:]
    if isinstance(root, SequenceNode):
        items = [
            replace_node(one, rest, node) if place == step else one for place, one in enumerate(root.items)
        ]
        return replace(root, items=tuple(items))
    assert isinstance(root, MappingNode), "a path leads through mappings and lists"
    entry = root.entries[str(step)]
    inner = Entry(entry.key_span, replace_node(entry.node, rest, node))
    return replace(root, entries={**root.entries, str(step): inner})


def rename_key(root: Node, path: Sequence[str | int], meant: str | None) -> Node:
    """The tree with the last key of a path renamed to `meant`, or removed if `meant` is None or already
    present. A path that does not exist changes nothing."""
    mapping, taken = node_at(root, path[:-1])
    if taken < len(path) - 1 or not isinstance(mapping, MappingNode) or path[-1] not in mapping.entries:
        return root
    names = {path[-1]: meant if meant not in mapping.entries else None}
    renamed = [(names.get(name, name), entry) for name, entry in mapping.entries.items()]
    entries = {str(name): entry for name, entry in renamed if name is not None}
    return replace_node(root, path[:-1], replace(mapping, entries=entries))


def apply_merge_keys(entries: dict[str, Entry], merged: Sequence[Node]) -> dict[str, Entry]:
    """Resolve `<<: *defaults`: add the keys of the other mappings that this one does not have."""
    for source in merged:
        if isinstance(source, MappingNode):
            for key, entry in source.entries.items():
                entries.setdefault(key, entry)
    return entries
