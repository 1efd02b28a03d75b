"""Expands `matrix`: each combination of its values is a leg of the plan."""

import itertools
from collections.abc import Mapping, Sequence

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.parsing.validation_diagnostics import describe_node
from posttrain.compiler.text.yaml_tree import MappingNode, Node, ScalarNode, SequenceNode
from posttrain.spec.diagnostic import Code
from posttrain.spec.record import record
from posttrain.spec.suggestions import hint

MAX_LEGS = 1000

_EXAMPLE_AXES = ("name: demo", "name: demo\nmatrix: {rate: [1.0e-4, 3.0e-4]}")
_EXAMPLE_USE = ("epochs: 1,", 'epochs: 1, learning_rate: "${matrix.rate}",')
BAD_MATRIX = Code(
    "PT0131",
    "invalid matrix",
    "error",
    "`matrix` maps names to lists of values. Every combination becomes a leg of the plan, in which"
    " ${matrix.NAME} is the value of the combination. `exclude` drops the legs that match one of its"
    " mappings. `include` adds legs; each of them needs a value for every name.",
    wrong=minimal_recipe((_EXAMPLE_AXES[0], "name: demo\nmatrix: {rate: 1.0e-4}")),
    right=minimal_recipe(_EXAMPLE_AXES, _EXAMPLE_USE),
)
UNUSED_AXIS = Code(
    "PT0132",
    "unused matrix name",
    "warning",
    "No ${matrix.NAME} refers to this name, so its legs are identical and run only once. Use the name or"
    " remove it.",
    wrong=minimal_recipe(_EXAMPLE_AXES),
    right=minimal_recipe(_EXAMPLE_AXES, _EXAMPLE_USE),
)
CODES = (BAD_MATRIX, UNUSED_AXIS)
Axes = Mapping[str, tuple[ScalarNode, ...]]


@record
class Leg:
    """One combination: a value for every name, in the order of the names."""

    values: Mapping[str, ScalarNode]
    # Whether the matrix is invalid. References to it are then not reported.
    invalid: bool = False


def expand_matrix(root: MappingNode, diagnostics: Diagnostics) -> list[Leg]:
    """The legs of a recipe; a single leg without values if it has no matrix."""
    entry = root.entries.get("matrix")
    if entry is None:
        return [Leg({})]
    axes = _parse_axes(entry.node, diagnostics)
    if axes is None:
        return [Leg({}, invalid=True)]
    assert isinstance(entry.node, MappingNode), "a matrix with axes is a mapping"
    combinations = itertools.product(*axes.values())
    found = [Leg(dict(zip(axes, values, strict=True))) for values in combinations] if axes else []
    for excluded in _parse_filters(entry.node, "exclude", axes, diagnostics):
        found = [leg for leg in found if not _matches(leg, excluded)]
    for included in _parse_filters(entry.node, "include", axes, diagnostics):
        missing = [name for name in axes if name not in included]
        if missing:
            span = entry.node.entries["include"].key_span
            diagnostics.add_at_span(BAD_MATRIX, span, f"a leg of `include` has no value for `{missing[0]}`")
        found.append(Leg(included))
    if not found:
        diagnostics.add_at_span(BAD_MATRIX, entry.key_span, "the matrix has no legs left")
        return [Leg({}, invalid=True)]
    return found


def _parse_axes(node: Node, diagnostics: Diagnostics) -> Axes | None:
    if not isinstance(node, MappingNode):
        diagnostics.add_at_span(BAD_MATRIX, node.span, f"`matrix` is a mapping; found {describe_node(node)}")
        return None
    axes: dict[str, tuple[ScalarNode, ...]] = {}
    count = 1
    for name, entry in node.entries.items():
        if name in ("include", "exclude"):
            continue
        values = entry.node.items if isinstance(entry.node, SequenceNode) else ()
        leaves = tuple(value for value in values if isinstance(value, ScalarNode))
        if not leaves or len(leaves) < len(values):
            odd = next((value for value in values if not isinstance(value, ScalarNode)), entry.node)
            what = "plain values" if values else "a list of values"
            message = f"`{name}` takes {what}; found {describe_node(odd)}"
            help = (
                "use `exclude` to drop legs and `include` to add legs" if isinstance(odd, MappingNode) else ""
            )
            diagnostics.add_at_span(BAD_MATRIX, odd.span, message, help=help)
            return None
        axes[name] = leaves
        count *= len(leaves)
    if count > MAX_LEGS:
        message = f"the matrix has {count} legs, but the maximum is {MAX_LEGS}"
        diagnostics.add_at_span(BAD_MATRIX, node.span, message)
        return None
    return axes


def _parse_filters(
    node: MappingNode, key: str, axes: Axes, diagnostics: Diagnostics
) -> list[dict[str, ScalarNode]]:
    """The mappings of `include` or `exclude`."""
    entry = node.entries.get(key)
    if entry is None:
        return []
    found: list[dict[str, ScalarNode]] = []
    for item in entry.node.items if isinstance(entry.node, SequenceNode) else (entry.node,):
        if not isinstance(item, MappingNode):
            message = f"`{key}` takes mappings from names to values; found {describe_node(item)}"
            diagnostics.add_at_span(BAD_MATRIX, item.span, message)
            continue
        values: dict[str, ScalarNode] = {}
        for name, inner in item.entries.items():
            if name not in axes:
                help, _ = hint(name, axes, what="names of this matrix")
                diagnostics.add_at_span(
                    BAD_MATRIX, inner.key_span, f"the matrix has no name `{name}`", help=help
                )
            elif isinstance(inner.node, ScalarNode):
                values[name] = inner.node
        found.append(values)
    return found


def _matches(leg: Leg, given: Mapping[str, ScalarNode]) -> bool:
    return bool(given) and all(leg.values[name].value == leaf.value for name, leaf in given.items())


def check_unused_axes(
    root: MappingNode, legs: Sequence[Leg], used: set[str], diagnostics: Diagnostics
) -> None:
    """Report names of the matrix that nothing uses."""
    entry = root.entries.get("matrix")
    if entry is None or not isinstance(entry.node, MappingNode):
        return
    for name in legs[0].values:
        if f"matrix.{name}" not in used:
            span = entry.node.entries[name].key_span
            diagnostics.add_at_span(UNUSED_AXIS, span, f"nothing uses ${{matrix.{name}}}")
