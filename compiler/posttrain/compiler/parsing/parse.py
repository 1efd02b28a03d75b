"""First pass: parses text to a tree with spans. YAML 1.2, in bounded time and memory."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.parsing.parse_codes import (
    DUPLICATE_KEY,
    MAX_BYTES,
    MAX_DEPTH,
    MAX_NODES,
    NO_MAPPING,
    NOT_TEXT,
    TOO_LARGE,
    UNSUPPORTED,
    YAML_ERROR,
)
from posttrain.compiler.text.compile_request import SourceFile
from posttrain.compiler.text.yaml_scalars import resolve_scalar
from posttrain.compiler.text.yaml_tree import (
    Entry,
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    apply_merge_keys,
)
from posttrain.spec.diagnostic import Label, Span
from posttrain.spec.suggestions import hint


class _ParseAborted(Exception):
    """Aborts the parse after a reported error."""


def parse(source: SourceFile, diagnostics: Diagnostics) -> MappingNode | None:
    """The tree of a file, or None when its text cannot be read as a recipe."""
    try:
        text = _decode(source, diagnostics)
    except _ParseAborted:
        return None
    composer = _Composer(source.name, text)
    root = composer.compose()
    if composer.error_position is not None:
        from posttrain.compiler.parsing.bracket_recovery import recover_unclosed

        composer, root = recover_unclosed(composer, root, diagnostics)
    diagnostics.collected += composer.diagnostics.collected
    if composer.aborted:
        return None
    if not isinstance(root, MappingNode):
        from posttrain.compiler.text.yaml_errors import describe_non_mapping

        message, help = describe_non_mapping(text)
        diagnostics.add_at_span(NO_MAPPING, _file_start(source.name), message, help=help)
        return None
    return root


def _file_start(file: str) -> Span:
    return Span(file, 1, 1, 1, 2)


def _decode(source: SourceFile, diagnostics: Diagnostics) -> str:
    if len(source.data) > MAX_BYTES:
        message = f"the file is larger than {MAX_BYTES // 2**20} MiB, the maximum for a recipe"
        help = "move data to files that `datasets` name"
        diagnostics.add_at_span(TOO_LARGE, _file_start(source.name), message, help=help)
        raise _ParseAborted
    try:
        return source.data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        from posttrain.compiler.text.yaml_errors import describe_encoding_error

        span, message, help = describe_encoding_error(source, error)
        diagnostics.add_at_span(NOT_TEXT, span, message, help=help)
        raise _ParseAborted from None


class _Composer:
    """Builds the tree from the parser's events, and counts its nodes."""

    def __init__(self, file: str, text: str, added: Mapping[int, tuple[int, ...]] | None = None) -> None:
        self.file = file
        self.text = text
        # The columns of characters that recovery inserted, by line.
        self.inserted = added or {}
        self.diagnostics = Diagnostics()
        self.aborted = False
        # The position of the parser's error.
        self.error_position: tuple[int, int] | None = None
        self.anchors: dict[str, tuple[Node, int]] = {}
        self.nodes = 0
        self.events: Iterator[Any] = self._parse_events(text)

    def compose(self) -> Node | None:
        """The tree, or None after an error. Errors are in `diagnostics`."""
        try:
            return self._document()
        except _ParseAborted:
            self.aborted = True
            return None

    def for_text(self, text: str, added: Mapping[int, tuple[int, ...]]) -> "_Composer":
        """A composer for another text of the same file."""
        return _Composer(self.file, text, added)

    def _document(self) -> Node | None:
        root: Node | None = None
        for event in self.events:
            name = type(event).__name__
            if name == "DocumentStartEvent" and event.version not in (None, (1, 2)):
                version = ".".join(str(number) for number in event.version)
                message = f"the file declares YAML {version}, but a recipe is YAML 1.2"
                self.diagnostics.add_at_span(
                    UNSUPPORTED, self._span(event), message, help="remove the line `%YAML`"
                )
            if name == "DocumentStartEvent" and root is not None:
                message = "second document in one file"
                help = "a recipe is one document: move the other one to its own file"
                self.diagnostics.add_at_span(NO_MAPPING, self._span(event), message, help=help)
                raise _ParseAborted
            if name not in ("StreamStartEvent", "DocumentStartEvent") and not name.endswith("EndEvent"):
                root = self._node(event, 0)
        return root

    def _parse_events(self, text: str) -> Iterator[Any]:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError, YAMLError

        try:
            yield from YAML(typ="safe", pure=True).parse(text)
        except MarkedYAMLError as error:
            from posttrain.compiler.text.yaml_errors import describe_yaml_error

            span, message, help, labels = describe_yaml_error(error, text, self.file)
            self.diagnostics.add_at_span(YAML_ERROR, span, message, labels=labels, help=help)
            mark: Any = error.problem_mark or error.context_mark
            self.error_position = (mark.line, mark.column)
            raise _ParseAborted from None
        except YAMLError as error:  # the reader's: a character that YAML forbids
            from posttrain.compiler.text.yaml_errors import describe_forbidden_character

            span, message, help = describe_forbidden_character(text, getattr(error, "position", 0), self.file)
            self.diagnostics.add_at_span(NOT_TEXT, span, message, help=help)
            raise _ParseAborted from None
        except (AssertionError, AttributeError, IndexError, TypeError, ValueError) as error:
            from posttrain.compiler.text.yaml_errors import describe_parser_crash

            span, message, help = describe_parser_crash(error, text, self.file)
            self.diagnostics.add_at_span(YAML_ERROR, span, message, help=help)
            raise _ParseAborted from None

    def _node(self, event: Any, depth: int) -> Node:
        kind = type(event).__name__
        if kind == "AliasEvent":
            return self._alias(event)
        self._check_size(event, 1, depth)
        tag = str(getattr(event, "ctag", None))
        if tag not in ("None", "!") or (tag == "!" and kind == "ScalarEvent" and event.style is None):
            self.diagnostics.add_at_span(
                UNSUPPORTED, self._span(event), f"unsupported YAML tag `{event.ctag}`"
            )
        before = self.nodes
        match kind:
            case "ScalarEvent":
                node: Node = self._scalar(event)
            case "SequenceStartEvent":
                node = self._sequence(event, depth)
            case _:
                node = self._mapping(event, depth)
        if event.anchor:
            self.anchors[event.anchor] = (node, self.nodes - before + 1)
        return node

    def _alias(self, event: Any) -> Node:
        known = self.anchors.get(event.anchor)
        if known is None:
            message = f"there is no anchor `&{event.anchor}` before this alias"
            help, _ = hint(event.anchor, self.anchors, what="anchors")
            self.diagnostics.add_at_span(YAML_ERROR, self._span(event), message, help=help)
            raise _ParseAborted
        node, size = known
        self._check_size(event, size, 0)
        return node

    def _check_size(self, event: Any, size: int, depth: int) -> None:
        self.nodes += size
        if depth > MAX_DEPTH or self.nodes > MAX_NODES:
            what = f"more than {MAX_DEPTH} levels" if depth > MAX_DEPTH else f"more than {MAX_NODES} nodes"
            self.diagnostics.add_at_span(TOO_LARGE, self._span(event), f"the file has {what} here")
            raise _ParseAborted

    def _scalar(self, event: Any) -> ScalarNode:
        plain = event.style is None
        value = resolve_scalar(event.value) if plain else event.value
        return ScalarNode(value, self._span(event), event.value, plain)

    def _sequence(self, event: Any, depth: int) -> SequenceNode:
        items: list[Node] = []
        for item in self.events:
            if type(item).__name__ == "SequenceEndEvent":
                return SequenceNode(tuple(items), self._span_between(event, item))
            items.append(self._node(item, depth + 1))
        raise _ParseAborted

    def _mapping(self, event: Any, depth: int) -> MappingNode:
        entries: dict[str, Entry] = {}
        merged: list[Node] = []
        for item in self.events:
            if type(item).__name__ == "MappingEndEvent":
                return MappingNode(apply_merge_keys(entries, merged), self._span_between(event, item))
            key, span = self._key(item)
            value = self._node(next(self.events), depth + 1)
            if (
                isinstance(value, ScalarNode)
                and not value.text
                and value.span.column == value.span.end_column
            ):
                value = replace(value, span=span)  # an empty value has no text: use the key's place
            if key == "<<" and item.style is None:
                merged += self._merge_sources(value)
            elif key in entries:
                first = Label(entries[key].key_span, "first written here")
                self.diagnostics.add_at_span(DUPLICATE_KEY, span, f"duplicate key `{key}`", labels=(first,))
            else:
                entries[key] = Entry(span, value)
        raise _ParseAborted

    def _merge_sources(self, value: Node) -> list[Node]:
        """The mappings that `<<` merges."""
        sources = value.items if isinstance(value, SequenceNode) else (value,)
        for source in sources:
            if not isinstance(source, MappingNode):
                message = "`<<` merges the keys of other mappings: it takes a mapping or a list of mappings"
                self.diagnostics.add_at_span(UNSUPPORTED, source.span, message)
        return list(sources)

    def _key(self, event: Any) -> tuple[str, Span]:
        span = self._span(event)
        if type(event).__name__ != "ScalarEvent":
            braces = type(event).__name__ == "MappingStartEvent" and event.flow_style
            help = '`{{ ... }}` is not interpolated: write "${vars.NAME}"' if braces else ""
            self.diagnostics.add_at_span(UNSUPPORTED, span, "a key must be a scalar", help=help)
            raise _ParseAborted
        self._check_size(event, 1, 0)
        return event.value, span

    def _span(self, event: Any) -> Span:
        return self._span_between(event, event)

    def _span_between(self, first: Any, last: Any) -> Span:
        start, end = first.start_mark, last.end_mark
        from_, to = start.column, end.column
        if self.inserted:
            from_, to = self.original_column(start.line, from_), self.original_column(end.line, to)
        return Span(self.file, start.line + 1, from_ + 1, end.line + 1, to + 1)

    def original_column(self, line: int, column: int) -> int:
        """The column in the user's text."""
        return column - sum(one < column for one in self.inserted.get(line, ()))
