"""Second pass: one tree from the file, what it extends, its profiles and --set."""

import posixpath

from posttrain.compiler.diagnosis.examples import MINIMAL, minimal
from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.diagnosis.suggest import hint
from posttrain.compiler.files import shortened, unreadable_path
from posttrain.compiler.reading.overlay import nest, overlay, without
from posttrain.compiler.reading.parse import parse
from posttrain.compiler.reading.shape import with_known_sections
from posttrain.compiler.text.source import Request, Source
from posttrain.compiler.text.tree import Entry, Leaf, Listed, Mapped, Node
from posttrain.spec.diagnostic import Code, Label, Span

NO_SUCH_BASE = Code(
    "PT0111",
    "a file that the recipe extends cannot be used",
    "error",
    "`extends` names recipe files by paths relative to the file that names them. They must exist, lie"
    " in the recipe's own folder or below it, and not extend each other in a circle.",
    wrong=minimal(("name: demo", "name: demo\nextends: base.yaml")),
    right=minimal(("name: demo", "name: demo\nextends: lora.yaml")),
    beside=(("lora.yaml", "description: shared settings\n"),),
)
NO_SUCH_PROFILE = Code(
    "PT0112",
    "a profile is not written as one",
    "error",
    "`profiles` maps names to overlays: mappings with the same sections as the recipe itself, laid over"
    " it when the profile is chosen with --profile NAME.",
    wrong=minimal(("name: demo", "name: demo\nprofiles: {smoke: 1}")),
    right=minimal(("name: demo", "name: demo\nprofiles: {smoke: {seed: 1}}")),
)
BAD_SETTING = Code(
    "PT0113",
    "a --set does not fit the recipe",
    "error",
    "--set takes PATH=VALUE: the path is written with dots and leads to a place that a mapping of the"
    " recipe has or may have; the value is YAML.",
    wrong=minimal(),
    right=MINIMAL,
)
CODES = (NO_SUCH_BASE, NO_SUCH_PROFILE, BAD_SETTING)


def profile_names(root: Mapped, request: Request) -> list[str]:
    """The profiles that a recipe has, those of the files that it extends too."""
    whole = _Bases(request, Findings()).under(root)
    entry = whole.entries.get("profiles")
    return list(entry.node.entries) if entry is not None and isinstance(entry.node, Mapped) else []


def expand(root: Mapped, request: Request, findings: Findings) -> Mapped:
    """The tree with everything laid over it; its variables are filled in for each leg."""
    whole = _Bases(request, findings).under(root)
    whole = _with_profiles(whole, request, findings)
    for setting in request.settings:
        whole = _with_setting(whole, setting, findings)
    return without(whole, "extends", "profiles")


# More files than this are no recipe that a person could follow; two that name two each double quickly.
_MOST_FILES = 64


class _Bases:
    """Reads the files that a recipe extends: each once for each time that it is named, up to a number."""

    def __init__(self, request: Request, findings: Findings) -> None:
        self.request = request
        self.findings = findings
        self.read = 0

    def under(self, root: Mapped) -> Mapped:
        """The root with all that it extends below it."""
        return self._extended(root, (self.request.source.name,), "")

    def _extended(self, root: Mapped, chain: tuple[str, ...], folder: str) -> Mapped:
        """The files that `root` extends, in order, with `root` laid over them."""
        root = with_known_sections(root, self.findings)
        entry = root.entries.get("extends")
        if entry is None:
            return root
        result: Node | None = None
        for item in entry.node.items if isinstance(entry.node, Listed) else (entry.node,):
            base = self._base(item, chain, folder)
            if base is not None:
                result = base if result is None else overlay(result, base)
        merged = overlay(result, root) if result is not None else root
        assert isinstance(merged, Mapped)
        return Mapped(merged.entries, root.span)

    def _base(self, item: Node, chain: tuple[str, ...], folder: str) -> Mapped | None:
        if not isinstance(item, Leaf) or not isinstance(item.value, str) or not item.value:
            return self._refuse(item, "`extends` takes a path or a list of paths")
        path = posixpath.normpath(posixpath.join(folder, item.value))
        if path.startswith(("..", "/")):
            return self._refuse(
                item, f"`{item.value}` leaves the recipe's folder", "copy the file beside the recipe"
            )
        if path in chain:
            circle = " -> ".join((*chain[chain.index(path) :], path))
            return self._refuse(item, f"these files extend each other in a circle: {circle}")
        if self.read >= _MOST_FILES:
            told = (
                ""
                if self.read > _MOST_FILES
                else f"a recipe extends at most {_MOST_FILES} files, each time counted"
            )
            self.read += 1
            return self._refuse(item, told) if told else None
        data = self.request.read(path)
        if data is None:
            message = f"there is no file `{shortened(path)}` beside the recipe"
            return self._refuse(item, message, unreadable_path(item.value))
        self.read += 1
        base = parse(Source(path, data), self.findings)
        return None if base is None else self._extended(base, (*chain, path), posixpath.dirname(path))

    def _refuse(self, item: Node, message: str, help: str = "") -> None:
        self.findings.at_span(NO_SUCH_BASE, item.span, message, help=help)


def _with_profiles(root: Mapped, request: Request, findings: Findings) -> Mapped:
    entry = root.entries.get("profiles")
    profiles = entry.node if entry else None
    if isinstance(profiles, Mapped):
        for name, profile in profiles.entries.items():
            if not isinstance(profile.node, Mapped):
                findings.at_span(NO_SUCH_PROFILE, profile.node.span, f"the profile `{name}` is no mapping")
    elif profiles is not None:
        findings.at_span(NO_SUCH_PROFILE, profiles.span, "`profiles` maps names to overlays")
    known = profiles.entries if isinstance(profiles, Mapped) else {}
    for name in request.profiles:
        chosen = known.get(name)
        if chosen is None:
            text, _ = hint(name, known, what="profiles of this recipe")
            span = Span(f"--profile {name}", 1, 1, 1, len(name) + 1)
            findings.at_span(NO_SUCH_PROFILE, span, f"the recipe has no profile `{name}`", help=text)
        elif isinstance(chosen.node, Mapped):
            merged = overlay(root, with_known_sections(chosen.node, findings))
            assert isinstance(merged, Mapped)
            root = merged
    return root


def _with_setting(root: Mapped, setting: tuple[str, str], findings: Findings) -> Mapped:
    path, text = setting
    name = f"--set {path}"
    span = Span(name, 1, 1, 1, max(2, len(text) + 1))
    value = _setting_value(name, text, findings)
    keys = path.split(".")
    if value is None or not all(keys):
        findings.at_span(BAD_SETTING, span, f"`{path}={text}` is not PATH=VALUE")
        return root
    blocked = _first_not_mapping(root, keys)
    if blocked is not None:
        where, node = blocked
        label = Label(node.span, "this is no mapping")
        findings.at_span(BAD_SETTING, span, f"`{where}` has nothing below it to set", labels=(label,))
        return root
    merged = overlay(root, nest(keys, span, value))
    assert isinstance(merged, Mapped)
    return merged


def _setting_value(name: str, text: str, findings: Findings) -> Node | None:
    """The value of a --set, read as the value of a key so that scalars and flows both work."""
    before = len(findings.found)
    tree = parse(Source(name, f"value: {text}".encode()), findings)
    if tree is None or list(tree.entries) != ["value"]:
        del findings.found[before:]
        return None
    return _moved(tree.entries["value"].node, name, len("value: "))


def _moved(node: Node, name: str, by: int) -> Node:
    """The spans of a --set value count from the value itself."""
    start, end = node.span.column - by, node.span.end_column - by
    span = Span(name, 1, max(1, start), 1, max(2, end))
    match node:
        case Leaf():
            return Leaf(node.value, span, node.text, node.plain)
        case Listed():
            return Listed(tuple(_moved(item, name, by) for item in node.items), span)
        case _:
            entries = {k: Entry(span, _moved(e.node, name, by)) for k, e in node.entries.items()}
            return Mapped(entries, span)


def _first_not_mapping(root: Mapped, keys: list[str]) -> tuple[str, Node] | None:
    mapping = root
    for taken, key in enumerate(keys[:-1], 1):
        if key not in mapping.entries:
            return None
        node = mapping.entries[key].node
        if not isinstance(node, Mapped):
            return ".".join(keys[:taken]), node
        mapping = node
    return None
