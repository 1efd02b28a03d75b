"""Fills the revisions of a lock in, wherever a recipe names something on the hub."""

import re
from collections.abc import Iterator
from dataclasses import field, replace

from posttrain.compiler.text.tree import Entry, Leaf, Mapped, Path, at
from posttrain.spec.diagnostic import Label, Span
from posttrain.spec.lockfile import Id, Lock
from posttrain.spec.record import record

_ON_THE_HUB = re.compile(r"\w[\w.-]*(/[\w.-]+)?\Z")
# An image by its name and a tag, or by its name alone, which means the tag `latest`.
_WORD = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
BY_TAG = re.compile(rf"(?:[A-Za-z0-9.-]+(?::[0-9]+)?/)?{_WORD}(?:/{_WORD})*(?::[A-Za-z0-9_][\w.-]{{0,127}})?")
_COMMIT = re.compile(r"[0-9a-f]{40}\Z")
_LATEST = "main"


@record
class Pins:
    """The lock that a compilation goes by, if any; and what on the hub the recipe names."""

    lock: Lock | None = None
    # The lock's file, for diagnostics.
    file: str = ""
    asked: set[Id] = field(default_factory=set[Id])
    # What is not in the lock, and where the recipe names it.
    lacking: dict[Id, Span] = field(default_factory=dict[Id, Span])
    # Images that were written by a tag, by the digest that the lock has for them.
    images: dict[str, Id] = field(default_factory=dict[str, Id])


def commit_in(name: str) -> str | None:
    """The commit, when the name of an entry asks for one and not for a branch or a tag."""
    revision = name.rpartition("@")[2]
    return revision if _COMMIT.match(revision) else None


def pin(root: Mapped, pins: Pins) -> Mapped:
    """The tree with locked revisions. What the lock does not hold is noted."""
    for path, key, kind in _places(root):
        holder, taken = at(root, path)
        if taken < len(path) or not isinstance(holder, Mapped):
            continue
        named = _named(holder, key)
        if named is None:
            continue
        pins.asked.add((kind, named))
        if pins.lock is not None and commit_in(named) is None:
            name = holder.entries[key]
            root = _pinned(root, (*path, "revision"), name.key_span, name.node.span, (kind, named), pins)
    for path in _revisions(root):
        root = _with_commit(root, path, pins)
    for path in _containers(root):
        root = _with_digest(root, path, pins)
    return root


def _revisions(root: Mapped) -> Iterator[Path]:
    """The revisions of data sets that benchmarks name, each under its data set's name."""
    for stage in _keys(root, ("stages",)):
        if "benchmark" in _keys(root, ("stages", stage)):
            for name in _keys(root, ("stages", stage, "revisions")):
                yield ("stages", stage, "revisions", name)


def _with_commit(root: Mapped, path: Path, pins: Pins) -> Mapped:
    """The tree with the revision of a benchmark's data set as the lock has it."""
    name = str(path[-1])
    holder = at(root, path[:-1])[0]
    revision = _text(holder, name) if isinstance(holder, Mapped) else None
    if revision is None or not isinstance(holder, Mapped) or not _ON_THE_HUB.match(name):
        return root
    id = ("dataset", f"{name}@{revision}")
    pins.asked.add(id)
    if pins.lock is None or commit_in(id[1]) is not None:
        return root
    entry = holder.entries[name]
    return _pinned(root, path, entry.key_span, entry.node.span, id, pins)


def _containers(root: Mapped) -> Iterator[Path]:
    yield ("container",)
    for name in _keys(root, ("stages",)):
        yield ("stages", name, "container")


def _with_digest(root: Mapped, path: Path, pins: Pins) -> Mapped:
    """The tree with an image that is written by its tag under the digest that the lock has for it."""
    holder, taken = at(root, path)
    image = _text(holder, "image") if taken == len(path) and isinstance(holder, Mapped) else None
    if pins.lock is None or image is None or not isinstance(holder, Mapped) or not BY_TAG.fullmatch(image):
        return root
    id, entry = ("image", image), holder.entries["image"]
    digest = pins.lock.values.get(id, "").partition(" ")[0]
    if not digest.startswith("sha256:"):
        pins.lacking.setdefault(id, entry.node.span)
        return root
    pinned = f"{untagged(image)}@{digest}"
    pins.images[pinned] = id
    line = pins.lock.lines[id]
    told = Label(Span(pins.file, line, 1, line, 2), "the locked digest")
    leaf = Leaf(pinned, entry.node.span, pinned, True, (told,))
    return _with(root, (*path, "image"), Entry(entry.key_span, leaf))


def untagged(image: str) -> str:
    """The name of an image without its tag; a colon before the last slash is a registry's port."""
    start, slash, last = image.rpartition("/")
    return f"{start}{slash}{last.partition(':')[0]}"


def _places(root: Mapped) -> Iterator[tuple[Path, str, str]]:
    """Where something on the hub may be named: the mapping, the key of the name, and its kind."""
    for name in _keys(root, ("models",)):
        yield ("models", name), "from", "model"
        yield ("models", name, "tokenizer"), "from", "model"
    for name in _keys(root, ("datasets",)):
        yield ("datasets", name, "from", "hub"), "name", "dataset"


def _keys(root: Mapped, path: Path) -> list[str]:
    node, taken = at(root, path)
    return list(node.entries) if isinstance(node, Mapped) and taken == len(path) else []


def _named(holder: Mapped, key: str) -> str | None:
    """The name with the revision that it is wanted in; None when nothing of the hub is named."""
    name, revision = _text(holder, key), _text(holder, "revision")
    if name is None or not _ON_THE_HUB.match(name):
        return None
    return f"{name}@{revision or _LATEST}"


def _text(holder: Mapped, key: str) -> str | None:
    entry = holder.entries.get(key)
    value = entry.node.value if entry is not None and isinstance(entry.node, Leaf) else None
    return value if isinstance(value, str) else None


def _pinned(root: Mapped, path: Path, key: Span, place: Span, id: Id, pins: Pins) -> Mapped:
    """The tree with the locked commit at `path`; the recipe names at `place` what it is of."""
    assert pins.lock is not None, "only a lock pins"
    commit = pins.lock.values.get(id)
    if commit is None:
        pins.lacking.setdefault(id, place)
        return root
    line = pins.lock.lines[id]
    told = Label(Span(pins.file, line, 1, line, 2), "the locked revision")
    return _with(root, path, Entry(key, Leaf(commit, place, commit, True, (told,))))


def _with(root: Mapped, path: Path, entry: Entry) -> Mapped:
    """The tree with one entry set."""
    first = str(path[0])
    if len(path) > 1:
        inner = root.entries[first]
        assert isinstance(inner.node, Mapped), "a place is below mappings"
        entry = Entry(inner.key_span, _with(inner.node, path[1:], entry))
    return replace(root, entries={**root.entries, first: entry})
