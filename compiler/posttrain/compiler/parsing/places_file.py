"""Parses the user's places. A place is no part of a recipe: it changes no plan and no key."""

from collections.abc import Mapping

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.parsing.parse import parse
from posttrain.compiler.parsing.typed_recipe import BAD_NAME, VALID_NAME
from posttrain.compiler.parsing.validation_diagnostics import (
    MISSING_KEY,
    UNKNOWN_KEY,
    WRONG_TYPE,
    WRONG_VALUE,
    describe_node,
    validate,
)
from posttrain.compiler.text.compile_request import SourceFile
from posttrain.compiler.text.yaml_tree import MappingNode, Node, ScalarNode
from posttrain.spec.declaration_fields import Declaration, keys_of
from posttrain.spec.diagnostic import Diagnostic, sort_by_location
from posttrain.spec.place import Place, RayPlace, SlurmPlace
from posttrain.spec.record import record
from posttrain.spec.suggestions import hint

_ENGINES: Mapping[str, type[SlurmPlace] | type[RayPlace]] = {"slurm": SlurmPlace, "ray": RayPlace}


@record(kw_only=True)
class PlacesFile:
    """The valid places by name, the names of the invalid ones, and all diagnostics in file order."""

    places: Mapping[str, Place]
    invalid: frozenset[str]
    diagnostics: tuple[Diagnostic, ...]


def parse_places(source: SourceFile) -> PlacesFile:
    """The places of a file: a mapping from names to declarations."""
    diagnostics = Diagnostics()
    places: dict[str, Place] = {}
    invalid: set[str] = set()
    tree = parse(source, diagnostics)
    if tree is not None:
        diagnostics.set_root(tree)
        for name, entry in tree.entries.items():
            place = _read_place(name, entry.node, diagnostics)
            if place is None:
                invalid.add(name)
            else:
                places[name] = place
    return PlacesFile(
        places=places,
        invalid=frozenset(invalid),
        diagnostics=tuple(sort_by_location(diagnostics.collected)),
    )


def _read_place(name: str, node: Node, out: Diagnostics) -> Place | None:
    before = len(out.collected)
    if VALID_NAME.match(name) is None:
        help = "a name starts with a letter and has at most 64 letters, digits, `-` and `_`"
        out.add(BAD_NAME, (name,), f"the name `{name}` is not valid", key=True, help=help)
    if not isinstance(node, MappingNode):
        help = "write a mapping, such as {engine: slurm, partition: gpu}"
        out.add(WRONG_TYPE, (name,), f"expected a mapping, found {describe_node(node)}", help=help)
        return None
    model = _engine_of(name, node, out)
    if model is None:
        return None
    foreign = _report_foreign_options(name, node, model, out)
    known = MappingNode({key: one for key, one in node.entries.items() if key not in foreign}, node.span)
    place = validate(model, known, (name,), out)
    return place if len(out.collected) == before else None


def _engine_of(name: str, node: MappingNode, out: Diagnostics) -> type[SlurmPlace] | type[RayPlace] | None:
    entry = node.entries.get("engine")
    if entry is None:
        out.add(MISSING_KEY, (name,), "missing key `engine`", help="write `engine: slurm` or `engine: ray`")
        return None
    written = entry.node.text if isinstance(entry.node, ScalarNode) else ""
    if written not in _ENGINES:
        help, meant = hint(written, list(_ENGINES), what="engines")
        message = (
            f"unknown engine `{written}`" if written else f"expected text, found {describe_node(entry.node)}"
        )
        out.add(WRONG_VALUE, (name, "engine"), message, help=help, replace=meant)
        return None
    return _ENGINES[written]


def _report_foreign_options(
    name: str, node: MappingNode, model: type[Declaration], out: Diagnostics
) -> frozenset[str]:
    """Report the options that only another engine has, and return them."""
    legal = set(keys_of(model))
    found: set[str] = set()
    for key in node.entries:
        owners = [engine for engine, other in _ENGINES.items() if key in keys_of(other)]
        if key not in legal and owners:
            found.add(key)
            help = f"`{key}` is an option of places with `engine: {owners[0]}`: remove it"
            message = f"this engine has no option `{key}`"
            out.add(UNKNOWN_KEY, (name, key), message, key=True, help=help)
    return frozenset(found)
