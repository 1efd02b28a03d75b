"""Collects the diagnostics of all passes, and maps paths in the tree to source locations."""

from posttrain.compiler.text.yaml_tree import KeyPath, MappingNode, Node, key_span, node_at, removal_span
from posttrain.spec.diagnostic import Code, Diagnostic, Edit, Label, Severity, Span, has_errors
from posttrain.spec.url_passwords import mask_url_passwords


class Diagnostics:
    """The diagnostics so far. Passes report at paths, which the tree maps to spans."""

    def __init__(self) -> None:
        self.collected: list[Diagnostic] = []
        self._root: Node | None = None
        self._suppressed: set[Span] = set()
        self._recovered: list[Span] = []

    def fork(self) -> "Diagnostics":
        """A copy that collects more diagnostics without a change to this one."""
        copy = Diagnostics()
        copy.collected = list(self.collected)
        copy._root = self._root
        copy._suppressed = set(self._suppressed)
        copy._recovered = list(self._recovered)
        return copy

    def set_root(self, root: Node) -> None:
        """Set the tree in which later paths are looked up."""
        self._root = root

    @property
    def root(self) -> Node:
        assert self._root is not None, "a path needs a tree"
        return self._root

    @property
    def has_errors(self) -> bool:
        return has_errors(self.collected)

    def suppress(self, span: Span) -> None:
        """Ignore further diagnostics at this span, because its error has been reported."""
        self._suppressed.add(span)

    def is_suppressed(self, span: Span) -> bool:
        """Whether diagnostics at this span are ignored."""
        return span in self._suppressed

    def mark_recovered(self, span: Span) -> None:
        """Ignore diagnostics in this range, because its structure was guessed after a syntax error."""
        self._recovered.append(span)

    def add_at_span(
        self,
        code: Code,
        span: Span,
        message: str,
        *,
        help: str = "",
        labels: tuple[Label, ...] = (),
        edit: Edit | None = None,
        severity: Severity | None = None,
        hides: Span | None = None,
    ) -> None:
        if any(_starts_within(span, whole) for whole in self._recovered):
            return
        kind = severity or code.severity
        message, help = mask_url_passwords(message), mask_url_passwords(help)
        if edit is not None and mask_url_passwords(edit.text) != edit.text:
            edit = None  # an edit with stars would destroy the URL
        self.collected.append(Diagnostic(code.id, kind, message, span, labels, help, edit, hides))

    def add(
        self,
        code: Code,
        path: KeyPath,
        message: str,
        *,
        key: bool = False,
        help: str = "",
        labels: tuple[Label, ...] = (),
        replace: str | None = None,
        severity: Severity | None = None,
        secret: bool = False,
    ) -> None:
        """Report at the value or the key of a path. `replace` becomes a suggested edit.

        With `secret`, the value is redacted in source lines.
        """
        span = self.span(path, key=key)
        if span in self._suppressed:
            return
        edit = Edit(span, replace) if replace is not None else None
        self.add_at_span(
            code,
            span,
            message,
            help=help,
            labels=(*labels, *self._provenance_labels(path)),
            edit=edit,
            severity=severity,
            hides=node_at(self.root, path)[0].span if secret else None,
        )

    def span(self, path: KeyPath, *, key: bool = False) -> Span:
        if key and path:
            return key_span(self.root, path)
        node, taken = node_at(self.root, path)
        # Report a missing key at the key of its mapping, because the body of the mapping can be long.
        if isinstance(node, MappingNode) and taken and (taken < len(path) or len(node.entries) > 1):
            return key_span(self.root, path[:taken])
        if isinstance(node, MappingNode) and path and not taken and node.entries:
            return next(iter(node.entries.values())).key_span  # not the whole file
        return node.span

    def removal_labels(self, name: str, *sections: str) -> tuple[Label, ...]:
        """The places where overlays remove the declarations of an unknown name."""
        places = [removal_span(node_at(self.root, (section,))[0], name) for section in sections]
        return tuple(Label(place, "removed here") for place in places if place is not None)

    def _provenance_labels(self, path: KeyPath) -> tuple[Label, ...]:
        node, taken = node_at(self.root, path)
        removed = removal_span(node, path[taken]) if taken < len(path) else None
        return (*node.via, Label(removed, "removed here")) if removed else node.via


def _starts_within(span: Span, whole: Span) -> bool:
    begins, ends = (whole.line, whole.column), (whole.end_line, whole.end_column)
    return span.file == whole.file and begins <= (span.line, span.column) < ends
