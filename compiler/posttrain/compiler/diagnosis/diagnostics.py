"""Collects what the passes find, turning paths into places."""

from posttrain.compiler.text.yaml_tree import KeyPath, MappingNode, Node, key_span, node_at
from posttrain.spec.diagnostic import Code, Diagnostic, Edit, Label, Severity, Span, has_errors


class Diagnostics:
    """The diagnostics so far. A pass reports by path; the tree tells where that is."""

    def __init__(self) -> None:
        self.collected: list[Diagnostic] = []
        self._root: Node | None = None
        self._suppressed: set[Span] = set()
        self._recovered: list[Span] = []

    def set_root(self, root: Node) -> None:
        """From here on, paths are looked up in this tree."""
        self._root = root

    @property
    def root(self) -> Node:
        assert self._root is not None, "a path needs a tree"
        return self._root

    @property
    def has_errors(self) -> bool:
        return has_errors(self.collected)

    def suppress(self, span: Span) -> None:
        """What stands here has been reported: passes that stumble over it add nothing."""
        self._suppressed.add(span)

    def is_suppressed(self, span: Span) -> bool:
        """Whether what stands here has been reported."""
        return span in self._suppressed

    def mark_recovered(self, span: Span) -> None:
        """How this stretch is to be read was guessed: nothing is said of what stands in it."""
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
        """Report at a path: at its value, or at its key. `replace` becomes a suggested edit.

        The value of a `secret` is not shown with the source lines.
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
        # What is missing from a mapping is reported at the mapping's own key: its body is long.
        if isinstance(node, MappingNode) and taken and (taken < len(path) or len(node.entries) > 1):
            return key_span(self.root, path[:taken])
        if isinstance(node, MappingNode) and path and not taken and node.entries:
            return next(iter(node.entries.values())).key_span  # not the whole file
        return node.span

    def _provenance_labels(self, path: KeyPath) -> tuple[Label, ...]:
        return node_at(self.root, path)[0].via


def _starts_within(span: Span, whole: Span) -> bool:
    begins, ends = (whole.line, whole.column), (whole.end_line, whole.end_column)
    return span.file == whole.file and begins <= (span.line, span.column) < ends
