"""The concrete syntax of a recipe: verbatim scalars, with comments attached to their entries."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from posttrain.compiler.format.yaml_comments import Comment, CommentQueue, split_file_header


class UnsafeRewriteError(Exception):
    """The file cannot be formatted safely; the message is the reason."""


@dataclass(frozen=True, slots=True)
class ScalarText:
    """The verbatim text of a scalar or an alias; empty for an empty value."""

    text: str
    anchor: str = ""


@dataclass(frozen=True, slots=True)
class Collection:
    """A mapping or a list. `tail` are the comments after its last entry."""

    entries: tuple["Entry", ...]
    mapping: bool
    flow: bool
    anchor: str = ""
    tail: tuple[str, ...] = ()


SyntaxNode = ScalarText | Collection


@dataclass(frozen=True, slots=True)
class Entry:
    """A key with its value, or an item. `lead` are the comments before it, "" for an empty line."""

    key: str
    value: SyntaxNode
    lead: tuple[str, ...]
    # The trailing comment: after the value, or after the key of a block.
    trail: str = ""
    # The columns of comment and value, and whether several spaces precede the value: to preserve alignment.
    trail_column: int = 0
    value_column: int = 0
    padded: bool = False


# The comments and anchors of a text, sorted.
CommentsAndAnchors = tuple[list[str], list[str]]


@dataclass(frozen=True, slots=True)
class Document:
    root: Collection
    # Comments that belong to the file and not to its first section.
    head: tuple[str, ...]
    comments_and_anchors: CommentsAndAnchors


def read_syntax(text: str) -> Document:
    """The syntax of a valid YAML text with a mapping at the top level."""
    return _SyntaxReader(text).document()


def collect_comments_and_anchors(text: str) -> CommentsAndAnchors:
    tokens = _scan_tokens(text)
    return _comments_and_anchors(CommentQueue(text, tokens), tokens)


def _comments_and_anchors(comments: CommentQueue, tokens: Sequence[Any]) -> CommentsAndAnchors:
    kinds = ("AnchorToken", "AliasToken")
    names = (f"{type(t).__name__} {t.value}" for t in tokens if type(t).__name__ in kinds)
    return sorted(comment.text for comment in comments.pending), sorted(names)


def _scan_tokens(text: str) -> list[Any]:
    from ruamel.yaml import YAML

    return list(YAML(typ="safe", pure=True).scan(text))


class _SyntaxReader:
    """Walks the parser's events, and attaches the comments in text order."""

    def __init__(self, text: str) -> None:
        from ruamel.yaml import YAML

        tokens = _scan_tokens(text)
        if any(type(token).__name__ == "DirectiveToken" for token in tokens):
            raise UnsafeRewriteError("it has a YAML directive (%)")
        self.end = len(text) + 1
        self.scalars = {
            token.end_mark.index: text[token.start_mark.index : token.end_mark.index]
            for token in tokens
            if type(token).__name__ == "ScalarToken"
        }
        self.dashes = iter([t.start_mark for t in tokens if type(t).__name__ == "BlockEntryToken"])
        self.comments = CommentQueue(text, tokens)
        self.comments_and_anchors = _comments_and_anchors(self.comments, tokens)
        self.events: Iterator[Any] = iter(YAML(typ="safe", pure=True).parse(text))

    def document(self) -> Document:
        start = next(event for event in self.events if type(event).__name__ == "MappingStartEvent")
        root, trailing = self._collection(start, -1)
        head, own = split_file_header(root.entries[0].lead if root.entries else ())
        entries = (replace(root.entries[0], lead=tuple(own)), *root.entries[1:]) if root.entries else ()
        head = [*([trailing.text] if trailing else []), *head]
        tail = (*root.tail, *self.comments.take_until(self.end))
        return Document(replace(root, entries=entries, tail=tail), tuple(head), self.comments_and_anchors)

    def _node(self, event: Any, above: int) -> tuple[SyntaxNode, Comment | None]:
        """A node below the column `above`, and the trailing comment of its first line."""
        if getattr(event, "ctag", None) is not None:
            raise UnsafeRewriteError("it has a YAML tag (!)")
        if not _is_scalar(event):
            return self._collection(event, above)
        anchor = event.anchor or ""
        if type(event).__name__ == "AliasEvent":
            return ScalarText(f"*{anchor}"), None
        empty = event.value == "" and event.style is None
        return ScalarText("" if empty else self.scalars[event.end_mark.index], anchor), None

    def _collection(self, start: Any, above: int) -> tuple[Collection, Comment | None]:
        mapping, flow = type(start).__name__ == "MappingStartEvent", bool(start.flow_style)
        entries: list[Entry] = []
        trailing: Comment | None = None
        column = above
        event = next(self.events)
        while not type(event).__name__.endswith("EndEvent"):
            first = event.start_mark if mapping or flow else next(self.dashes)
            column = column if entries else first.column
            trailing = self._attach_trailing(entries, first.index) or trailing
            entries.append(self._entry(event, first, mapping, column))
            event = next(self.events)
        upto = event.start_mark.index
        stray = self._attach_trailing(entries, upto)
        # A comment at the column of the key above belongs to the entry after that key.
        lines = self.comments.take_until(upto, column=0 if flow else max(column, above + 1))
        tail = (*([stray.text] if stray else []), *lines)
        return Collection(tuple(entries), mapping, flow, start.anchor or "", tail), trailing

    def _attach_trailing(self, entries: list[Entry], upto: int) -> Comment | None:
        """Attach a trailing comment to the entry that ends there; return it if there is no entry yet."""
        comment = self.comments.take_trailing(upto)
        if comment is None or not entries:
            return comment
        entries[-1] = _with_trailing_comment(entries[-1], comment)
        return None

    def _entry(self, event: Any, first: Any, mapping: bool, column: int) -> Entry:
        lead = self.comments.take_above(first)
        key, end = "", first.index + 1
        if mapping:
            key, end = self._key(event), event.end_mark.index + 1
            event = next(self.events)
        start = event.start_mark
        trailing = self.comments.take_trailing(start.index)
        if _is_scalar(event) or event.flow_style:
            lead += self.comments.take_until(start.index)
        value, inside = self._node(event, column)
        entry = Entry(
            key=key,
            value=value,
            lead=tuple(lead),
            value_column=start.column,
            padded=mapping and start.line == first.line and start.index > end + 1,
        )
        for comment in (inside, trailing):
            entry = _with_trailing_comment(entry, comment) if comment else entry
        return entry

    def _key(self, event: Any) -> str:
        word, _ = self._node(event, 0)
        assert isinstance(word, ScalarText), "keys are words"
        if word.anchor or "\n" in word.text or word.text.startswith("*"):
            raise UnsafeRewriteError(f"its key `{event.value}` has an anchor or several lines")
        return word.text


def _is_scalar(event: Any) -> bool:
    return type(event).__name__ in ("ScalarEvent", "AliasEvent")


def _with_trailing_comment(entry: Entry, comment: Comment) -> Entry:
    """The entry with a trailing comment. An existing trailing comment moves above the entry."""
    lead = (*entry.lead, entry.trail) if entry.trail else entry.lead
    return replace(entry, lead=lead, trail=comment.text, trail_column=comment.column)
