"""Replaces revisions and image tags in a recipe with the commits and digests of the lockfile."""

import re
from collections.abc import Iterator
from dataclasses import field, replace

from posttrain.compiler.text.yaml_tree import Entry, KeyPath, MappingNode, ScalarNode, node_at
from posttrain.spec.diagnostic import Label, Span
from posttrain.spec.image_names import IMAGE_TAG_PATTERN, strip_image_tag
from posttrain.spec.lockfile import EntryId, Lockfile
from posttrain.spec.record import record

_HUB_NAME = re.compile(r"\w[\w.-]*(/[\w.-]+)?\Z")
_COMMIT = re.compile(r"[0-9a-f]{40}\Z")
_DEFAULT_BRANCH = "main"


@record
class Pins:
    """The lockfile of a compilation, if any, and the hub references of the recipe."""

    lock: Lockfile | None = None
    # The name of the lockfile, for diagnostics.
    file: str = ""
    hub_references: set[EntryId] = field(default_factory=set[EntryId])
    # Entries that the lockfile lacks, and where the recipe names them.
    missing: dict[EntryId, Span] = field(default_factory=dict[EntryId, Span])
    # Images that the recipe names by tag, by their locked digest.
    images: dict[str, EntryId] = field(default_factory=dict[str, EntryId])


def commit_of(name: str) -> str | None:
    """The commit in the name of an entry; None if the name has a branch or a tag."""
    revision = name.rpartition("@")[2]
    return revision if _COMMIT.match(revision) else None


def apply_pins(root: MappingNode, pins: Pins) -> MappingNode:
    """The tree with locked revisions. Missing entries are recorded in `pins.missing`."""
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
    """The paths of the dataset revisions in benchmarks."""
    for stage in _mapping_keys(root, ("stages",)):
        if "benchmark" in _mapping_keys(root, ("stages", stage)):
            for name in _mapping_keys(root, ("stages", stage, "revisions")):
                yield ("stages", stage, "revisions", name)


def _pin_benchmark_revision(root: MappingNode, path: KeyPath, pins: Pins) -> MappingNode:
    """The tree with the locked revision of a benchmark's dataset."""
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
    """The tree with the locked digest of an image that is named by tag."""
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


def _hub_locations(root: MappingNode) -> Iterator[tuple[KeyPath, str, str]]:
    """The places of hub names: the path of the mapping, the key of the name, and its kind."""
    for name in _mapping_keys(root, ("models",)):
        yield ("models", name), "from", "model"
        yield ("models", name, "tokenizer"), "from", "model"
    for name in _mapping_keys(root, ("datasets",)):
        yield ("datasets", name, "from", "hub"), "name", "dataset"


def _mapping_keys(root: MappingNode, path: KeyPath) -> list[str]:
    node, taken = node_at(root, path)
    return list(node.entries) if isinstance(node, MappingNode) and taken == len(path) else []


def _hub_id(holder: MappingNode, key: str) -> str | None:
    """The hub name with its revision; None if the mapping has no hub name."""
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
    """The tree with the locked commit at `path`; `place` is the span of the hub name."""
    assert pins.lock is not None, "there is a lockfile"
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
