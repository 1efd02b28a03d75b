"""Fills the revisions of a lock in, wherever a recipe names something on the hub."""

import re
from collections.abc import Iterator
from dataclasses import field, replace

from posttrain.compiler.text.yaml_tree import Entry, KeyPath, MappingNode, ScalarNode, node_at
from posttrain.spec.diagnostic import Label, Span
from posttrain.spec.lockfile import EntryId, Lockfile
from posttrain.spec.record import record

_HUB_NAME = re.compile(r"\w[\w.-]*(/[\w.-]+)?\Z")
# An image by its name and a tag, or by its name alone, which means the tag `latest`.
_NAME_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
IMAGE_TAG_PATTERN = re.compile(
    rf"(?:[A-Za-z0-9.-]+(?::[0-9]+)?/)?{_NAME_COMPONENT}(?:/{_NAME_COMPONENT})*(?::[A-Za-z0-9_][\w.-]{{0,127}})?"
)
_COMMIT = re.compile(r"[0-9a-f]{40}\Z")
_DEFAULT_BRANCH = "main"


@record
class Pins:
    """The lock that a compilation goes by, if any; and what on the hub the recipe names."""

    lock: Lockfile | None = None
    # The lock's file, for diagnostics.
    file: str = ""
    hub_references: set[EntryId] = field(default_factory=set[EntryId])
    # What is not in the lock, and where the recipe names it.
    missing: dict[EntryId, Span] = field(default_factory=dict[EntryId, Span])
    # Images that were written by a tag, by the digest that the lock has for them.
    images: dict[str, EntryId] = field(default_factory=dict[str, EntryId])


def commit_of(name: str) -> str | None:
    """The commit, when the name of an entry asks for one and not for a branch or a tag."""
    revision = name.rpartition("@")[2]
    return revision if _COMMIT.match(revision) else None


def apply_pins(root: MappingNode, pins: Pins) -> MappingNode:
    """The tree with locked revisions. What the lock does not hold is noted."""
    for path, key, kind in _hub_locations(root):
        holder, taken = node_at(root, path)
        if taken < len(path) or not isinstance(holder, MappingNode):
            continue
        named = _hub_id(holder, key)
        if named is None:
            continue
        pins.hub_references.add((kind, named))
        if pins.lock is not None and commit_of(named) is None:
            name = holder.entries[key]
            root = _pin_revision(
                root, (*path, "revision"), name.key_span, name.node.span, (kind, named), pins
            )
    for path in _revisions(root):
        root = _pin_benchmark_revision(root, path, pins)
    for path in _containers(root):
        root = _pin_image(root, path, pins)
    return root


def _revisions(root: MappingNode) -> Iterator[KeyPath]:
    """The revisions of data sets that benchmarks name, each under its data set's name."""
    for stage in _mapping_keys(root, ("stages",)):
        if "benchmark" in _mapping_keys(root, ("stages", stage)):
            for name in _mapping_keys(root, ("stages", stage, "revisions")):
                yield ("stages", stage, "revisions", name)


def _pin_benchmark_revision(root: MappingNode, path: KeyPath, pins: Pins) -> MappingNode:
    """The tree with the revision of a benchmark's data set as the lock has it."""
    name = str(path[-1])
    holder = node_at(root, path[:-1])[0]
    revision = _text(holder, name) if isinstance(holder, MappingNode) else None
    if revision is None or not isinstance(holder, MappingNode) or not _HUB_NAME.match(name):
        return root
    id = ("dataset", f"{name}@{revision}")
    pins.hub_references.add(id)
    if pins.lock is None or commit_of(id[1]) is not None:
        return root
    entry = holder.entries[name]
    return _pin_revision(root, path, entry.key_span, entry.node.span, id, pins)


def _containers(root: MappingNode) -> Iterator[KeyPath]:
    yield ("container",)
    for name in _mapping_keys(root, ("stages",)):
        yield ("stages", name, "container")


def _pin_image(root: MappingNode, path: KeyPath, pins: Pins) -> MappingNode:
    """The tree with an image that is written by its tag under the digest that the lock has for it."""
    holder, taken = node_at(root, path)
    image = _text(holder, "image") if taken == len(path) and isinstance(holder, MappingNode) else None
    if (
        pins.lock is None
        or image is None
        or not isinstance(holder, MappingNode)
        or not IMAGE_TAG_PATTERN.fullmatch(image)
    ):
        return root
    id, entry = ("image", image), holder.entries["image"]
    digest = pins.lock.values.get(id, "").partition(" ")[0]
    if not digest.startswith("sha256:"):
        pins.missing.setdefault(id, entry.node.span)
        return root
    pinned = f"{strip_image_tag(image)}@{digest}"
    pins.images[pinned] = id
    line = pins.lock.lines[id]
    locked_label = Label(Span(pins.file, line, 1, line, 2), "the locked digest")
    leaf = ScalarNode(pinned, entry.node.span, pinned, True, (locked_label,))
    return _set_entry(root, (*path, "image"), Entry(entry.key_span, leaf))


def strip_image_tag(image: str) -> str:
    """The name of an image without its tag; a colon before the last slash is a registry's port."""
    start, slash, last = image.rpartition("/")
    return f"{start}{slash}{last.partition(':')[0]}"


def _hub_locations(root: MappingNode) -> Iterator[tuple[KeyPath, str, str]]:
    """Where something on the hub may be named: the mapping, the key of the name, and its kind."""
    for name in _mapping_keys(root, ("models",)):
        yield ("models", name), "from", "model"
        yield ("models", name, "tokenizer"), "from", "model"
    for name in _mapping_keys(root, ("datasets",)):
        yield ("datasets", name, "from", "hub"), "name", "dataset"


def _mapping_keys(root: MappingNode, path: KeyPath) -> list[str]:
    node, taken = node_at(root, path)
    return list(node.entries) if isinstance(node, MappingNode) and taken == len(path) else []


def _hub_id(holder: MappingNode, key: str) -> str | None:
    """The name with the revision that it is wanted in; None when nothing of the hub is named."""
    name, revision = _text(holder, key), _text(holder, "revision")
    if name is None or not _HUB_NAME.match(name):
        return None
    return f"{name}@{revision or _DEFAULT_BRANCH}"


def _text(holder: MappingNode, key: str) -> str | None:
    entry = holder.entries.get(key)
    value = entry.node.value if entry is not None and isinstance(entry.node, ScalarNode) else None
    return value if isinstance(value, str) else None


def _pin_revision(
    root: MappingNode, path: KeyPath, key: Span, place: Span, id: EntryId, pins: Pins
) -> MappingNode:
    """The tree with the locked commit at `path`; the recipe names at `place` what it is of."""
    assert pins.lock is not None, "only a lock pins"
    commit = pins.lock.values.get(id)
    if commit is None:
        pins.missing.setdefault(id, place)
        return root
    line = pins.lock.lines[id]
    locked_label = Label(Span(pins.file, line, 1, line, 2), "the locked revision")
    return _set_entry(root, path, Entry(key, ScalarNode(commit, place, commit, True, (locked_label,))))


def _set_entry(root: MappingNode, path: KeyPath, entry: Entry) -> MappingNode:
    """The tree with one entry set."""
    first = str(path[0])
    if len(path) > 1:
        inner = root.entries[first]
        assert isinstance(inner.node, MappingNode), "a place is below mappings"
        entry = Entry(inner.key_span, _set_entry(inner.node, path[1:], entry))
    return replace(root, entries={**root.entries, first: entry})
