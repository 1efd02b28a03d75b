"""Second pass: merges the file, the files that it extends, its profiles and --set into one tree."""

import posixpath

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE, minimal_recipe
from posttrain.compiler.parsing.overlay import drop_keys, nested_mapping, overlay
from posttrain.compiler.parsing.parse import parse
from posttrain.compiler.parsing.typed_recipe import normalize_sections
from posttrain.compiler.text.compile_request import CompileRequest, ReadFile, SourceFile
from posttrain.compiler.text.yaml_tree import Entry, MappingNode, Node, ScalarNode, SequenceNode
from posttrain.compiler.user_files import describe_missing_file, is_outside_folder
from posttrain.spec.diagnostic import Code, Label, Span
from posttrain.spec.record import record
from posttrain.spec.suggestions import hint

BAD_BASE_FILE = Code(
    "PT0111",
    "invalid file in `extends`",
    "error",
    "`extends` names recipe files by paths relative to the file that names them. The files must exist, be in"
    " the recipe's folder or below it, and not extend each other in a cycle. It also takes recipes in"
    " registries, by digest: `oci://HOST/NAME@sha256:DIGEST`.",
    wrong=minimal_recipe(("name: demo", "name: demo\nextends: base.yaml")),
    right=minimal_recipe(("name: demo", "name: demo\nextends: lora.yaml")),
    files=(("lora.yaml", "description: shared settings\n"),),
)
BAD_PROFILE = Code(
    "PT0112",
    "invalid or unknown profile",
    "error",
    "`profiles` maps names to overlays: mappings with the same sections as the recipe. `--profile NAME`"
    " merges an overlay into the recipe.",
    wrong=minimal_recipe(("name: demo", "name: demo\nprofiles: {smoke: 1}")),
    right=minimal_recipe(("name: demo", "name: demo\nprofiles: {smoke: {seed: 1}}")),
)
BAD_OVERRIDE = Code(
    "PT0113",
    "invalid --set option",
    "error",
    "--set takes PATH=VALUE. The path is dotted and names an existing or new key of a mapping in the recipe;"
    " the value is YAML.",
    wrong=minimal_recipe(),
    right=MINIMAL_RECIPE,
)
CODES = (BAD_BASE_FILE, BAD_PROFILE, BAD_OVERRIDE)


def profile_names(root: MappingNode, request: CompileRequest) -> list[str]:
    """The profiles of a recipe, including those of the files that it extends."""
    return profiles_of(merge_extended_files(root, request, Diagnostics()))


def profiles_of(whole: MappingNode) -> list[str]:
    """The profiles of a tree in which the extended files are merged."""
    entry = whole.entries.get("profiles")
    return list(entry.node.entries) if entry is not None and isinstance(entry.node, MappingNode) else []


def expand(root: MappingNode, request: CompileRequest, diagnostics: Diagnostics) -> MappingNode:
    """The merged tree. Variables are not filled in yet, because they can differ between legs."""
    return apply_overlays(merge_extended_files(root, request, diagnostics), request, diagnostics)


def merge_extended_files(root: MappingNode, request: CompileRequest, diagnostics: Diagnostics) -> MappingNode:
    """The tree merged over the files that it extends."""
    return _ExtendsResolver(request, diagnostics).resolve(root)


def apply_overlays(whole: MappingNode, request: CompileRequest, diagnostics: Diagnostics) -> MappingNode:
    """The tree with the profiles and the --set options of a request."""
    whole = _apply_profiles(whole, request, diagnostics)
    for setting in request.overrides:
        whole = _apply_override(whole, setting, diagnostics)
    return drop_keys(whole, "extends", "profiles")


# A limit on files that extend several others, because their number can grow exponentially.
_MAX_FILES = 64


ARTIFACT_SCHEME = "oci://"


@record
class _Location:
    """Where the paths in a file start: in the recipe's folder, or in an artifact."""

    read: ReadFile
    folder: str = ""
    # The start of names of files in an artifact, in diagnostics.
    artifact: str = ""


class _ExtendsResolver:
    """Reads the files that a recipe extends, once per reference, up to `_MAX_FILES`."""

    def __init__(self, request: CompileRequest, diagnostics: Diagnostics) -> None:
        self.request = request
        self.diagnostics = diagnostics
        self.files_read = 0

    def resolve(self, root: MappingNode) -> MappingNode:
        """The root merged over the files that it extends."""
        return self._apply_extends(root, (self.request.source.name,), _Location(self.request.read))

    def _apply_extends(self, root: MappingNode, chain: tuple[str, ...], at: "_Location") -> MappingNode:
        """The files that `root` extends, in order, with `root` merged over them."""
        root = normalize_sections(root, self.diagnostics)
        entry = root.entries.get("extends")
        if entry is None:
            return root
        result: Node | None = None
        for item in entry.node.items if isinstance(entry.node, SequenceNode) else (entry.node,):
            base = self._load_base(item, chain, at)
            if base is not None:
                result = base if result is None else overlay(result, base)
        merged = overlay(result, root) if result is not None else root
        assert isinstance(merged, MappingNode)
        return MappingNode(merged.entries, root.span)

    def _load_base(self, item: Node, chain: tuple[str, ...], at: "_Location") -> MappingNode | None:
        if not isinstance(item, ScalarNode) or not isinstance(item.value, str) or not item.value:
            return self._report(item, "`extends` takes a path or a list of paths")
        if item.value.startswith(ARTIFACT_SCHEME):
            return self._load_artifact(item, item.value, chain)
        path = posixpath.normpath(posixpath.join(at.folder, item.value))
        if is_outside_folder(path):
            return self._report(
                item,
                f"`{item.value}` is outside the recipe's folder",
                "copy the file into the recipe's folder",
            )
        name = f"{at.artifact}{path}"
        if name in chain:
            cycle = " -> ".join((*chain[chain.index(name) :], name))
            return self._report(item, f"circular `extends`: {cycle}")
        if self._has_too_many(item):
            return None
        data = at.read(path)
        if data is None:
            return self._report(item, *describe_missing_file(path, item.value, self.request))
        inner = _Location(at.read, posixpath.dirname(path), at.artifact)
        return self._parse_base(SourceFile(name, data), (*chain, name), inner)

    def _load_artifact(self, item: Node, reference: str, chain: tuple[str, ...]) -> MappingNode | None:
        """The recipe of an artifact. Its own `extends` names files of the artifact."""
        if "@" not in reference:
            help = "`recipe plan` with this reference as PATH prints it with its digest"
            return self._report(item, f"`{reference}` has no digest, so it can change", help)
        if reference in chain:
            return self._report(item, f"circular `extends`: {reference}")
        if self._has_too_many(item):
            return None
        read = self.request.read_artifact
        found = read(reference) if read is not None else "this program reads no registries"
        if isinstance(found, str):
            return self._report(item, found)
        at = _Location(found.read, posixpath.dirname(found.source.name), f"{reference}#")
        source = SourceFile(f"{reference}#{found.source.name}", found.source.data)
        return self._parse_base(source, (*chain, reference, source.name), at)

    def _parse_base(self, source: SourceFile, chain: tuple[str, ...], at: "_Location") -> MappingNode | None:
        self.files_read += 1
        base = parse(source, self.diagnostics)
        return None if base is None else self._apply_extends(base, chain, at)

    def _has_too_many(self, item: Node) -> bool:
        if self.files_read >= _MAX_FILES:
            is_first = self.files_read == _MAX_FILES  # report it once
            self.files_read += 1
            message = f"a recipe can extend at most {_MAX_FILES} files, repeated files included"
            if is_first:
                self._report(item, message)
            return True
        return False

    def _report(self, item: Node, message: str, help: str = "") -> None:
        self.diagnostics.add_at_span(BAD_BASE_FILE, item.span, message, help=help)


def _apply_profiles(root: MappingNode, request: CompileRequest, diagnostics: Diagnostics) -> MappingNode:
    entry = root.entries.get("profiles")
    profiles = entry.node if entry else None
    if isinstance(profiles, MappingNode):
        for name, profile in profiles.entries.items():
            if not isinstance(profile.node, MappingNode):
                message = f"the profile `{name}` is not a mapping"
                diagnostics.add_at_span(BAD_PROFILE, profile.node.span, message)
                continue
            for key in ("extends", "profiles"):
                if key in profile.node.entries:
                    span = profile.node.entries[key].key_span
                    message = f"the profile `{name}` contains `{key}`, which only a file can have"
                    help = "write it at the top level of the file"
                    diagnostics.add_at_span(BAD_PROFILE, span, message, help=help)
    elif profiles is not None:
        diagnostics.add_at_span(BAD_PROFILE, profiles.span, "`profiles` maps names to overlays")
    known = profiles.entries if isinstance(profiles, MappingNode) else {}
    for name in request.profiles:
        chosen = known.get(name)
        if chosen is None:
            text, _ = hint(name, known, what="profiles of this recipe")
            span = Span(f"--profile {name}", 1, 1, 1, len(name) + 1)
            diagnostics.add_at_span(BAD_PROFILE, span, f"the recipe has no profile `{name}`", help=text)
        elif isinstance(chosen.node, MappingNode):
            merged = overlay(root, normalize_sections(chosen.node, diagnostics))
            assert isinstance(merged, MappingNode)
            root = merged
    return root


def _apply_override(root: MappingNode, setting: tuple[str, str], diagnostics: Diagnostics) -> MappingNode:
    path, text = setting
    name = f"--set {path}"
    span = Span(name, 1, 1, 1, max(2, len(text) + 1))
    if path.partition(".")[0] in ("extends", "profiles"):
        message = f"`{path}` has no effect: --set applies after the files in `extends` and the profiles"
        diagnostics.add_at_span(BAD_OVERRIDE, span, message, help="set the value of the recipe itself")
        return root
    value = _parse_override(name, text, diagnostics)
    keys = path.split(".")
    if value is None or not all(keys):
        diagnostics.add_at_span(BAD_OVERRIDE, span, f"`{path}={text}` is not PATH=VALUE")
        return root
    blocked = _first_not_mapping(root, keys)
    if blocked is not None:
        where, node = blocked
        label = Label(node.span, "not a mapping")
        diagnostics.add_at_span(
            BAD_OVERRIDE, span, f"`{where}` is not a mapping, so it has no keys to set", labels=(label,)
        )
        return root
    merged = overlay(root, nested_mapping(keys, span, value))
    assert isinstance(merged, MappingNode)
    return merged


def _parse_override(name: str, text: str, diagnostics: Diagnostics) -> Node | None:
    """The value of a --set. It is parsed as the value of a key, so that scalars and flow collections work."""
    before = len(diagnostics.collected)
    tree = parse(SourceFile(name, f"value: {text}".encode()), diagnostics)
    if tree is None or list(tree.entries) != ["value"]:
        del diagnostics.collected[before:]
        return None
    return _shift_spans(tree.entries["value"].node, name, len("value: "))


def _shift_spans(node: Node, name: str, by: int) -> Node:
    """The node with spans that count from the start of the --set value."""
    start, end = node.span.column - by, node.span.end_column - by
    span = Span(name, 1, max(1, start), 1, max(2, end))
    match node:
        case ScalarNode():
            return ScalarNode(node.value, span, node.text, node.plain)
        case SequenceNode():
            return SequenceNode(tuple(_shift_spans(item, name, by) for item in node.items), span)
        case _:
            entries = {k: Entry(span, _shift_spans(e.node, name, by)) for k, e in node.entries.items()}
            return MappingNode(entries, span)


def _first_not_mapping(root: MappingNode, keys: list[str]) -> tuple[str, Node] | None:
    mapping = root
    for taken, key in enumerate(keys[:-1], 1):
        if key not in mapping.entries:
            return None
        node = mapping.entries[key].node
        if not isinstance(node, MappingNode):
            return ".".join(keys[:taken]), node
        mapping = node
    return None
