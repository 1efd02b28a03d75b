"""Fourth pass: converts the tree to a typed recipe. Invalid declarations are reported and omitted.

Declarations are validated one by one, so that an error in one does not hide errors in another. The names of
invalid declarations are recorded, so that references to them are not reported again.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE, minimal_recipe
from posttrain.compiler.parsing.validation_diagnostics import WRONG_TYPE, describe_node, validate
from posttrain.compiler.text.yaml_tree import KeyPath, MappingNode, Node, ScalarNode, SequenceNode, rename_key
from posttrain.spec.declaration_fields import Declaration, keys_of
from posttrain.spec.declarations import Dataset, Endpoint, Environment, Reward
from posttrain.spec.diagnostic import Code, Label
from posttrain.spec.hardware import Container, Hardware
from posttrain.spec.model_declaration import Model
from posttrain.spec.recipe import SECTIONS, VERBS, AnyStage, Header
from posttrain.spec.record import record

NO_VERB = Code(
    "PT0211",
    "missing or ambiguous stage verb",
    "error",
    "A stage has exactly one verb, which is one of the keys train, eval, benchmark, gate, export, generate,"
    " script.",
    wrong=minimal_recipe(("{train: sft,", "{trains: sft,")),
    right=MINIMAL_RECIPE,
)
BAD_NAME = Code(
    "PT0212",
    "invalid name",
    "error",
    "Names of models, datasets, rewards and stages start with a letter and have at most 64 letters, digits,"
    " `-` and `_`. Dots are not allowed, because they separate a name from a part, as in NAME.PART.",
    wrong=minimal_recipe(("  base:", "  my.base:"), ("model: base", "model: my.base")),
    right=MINIMAL_RECIPE,
)
NO_STAGES = Code(
    "PT0213",
    "no stages",
    "error",
    "A recipe needs at least one stage. A file that other recipes extend cannot be compiled on its own.",
    wrong="recipe: 1\nname: demo\nstages: {}\n",
    right=MINIMAL_RECIPE,
)
NAME_TAKEN = Code(
    "PT0214",
    "duplicate name",
    "error",
    "Stages, models, datasets and endpoints share one namespace, because a reference to any of them is only"
    " the name. Rename one of the two.",
    wrong=minimal_recipe(("  check: {eval: sft", "  base: {eval: sft")),
    right=MINIMAL_RECIPE,
)
CODES = (NO_VERB, BAD_NAME, NO_STAGES, NAME_TAKEN)

VALID_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}\Z")
DeclarationT = TypeVar("DeclarationT", bound=Declaration)


@record(kw_only=True)
class TypedRecipe:
    """The valid declarations of a recipe, and the names of the invalid ones."""

    root: MappingNode
    name: str
    description: str
    seed: int
    hardware: Hardware
    container: Container | None
    tracking: tuple[str, ...]
    models: Mapping[str, Model]
    datasets: Mapping[str, Dataset]
    rewards: Mapping[str, Reward]
    endpoints: Mapping[str, Endpoint]
    environments: Mapping[str, Environment]
    stages: Mapping[str, AnyStage]
    invalid_names: frozenset[str]


def build_typed_recipe(root: MappingNode, diagnostics: Diagnostics) -> TypedRecipe:
    root = normalize_sections(root, diagnostics)
    diagnostics.set_root(root)
    header = _header(root, diagnostics)
    broken: set[str] = set()
    found = {
        section: _section(root, section, model, diagnostics, broken) for section, model in SECTIONS.items()
    }
    stages = _stages(root, diagnostics, broken)
    _check_duplicate_names(root, diagnostics)
    known: dict[str, Any] = {**found}
    return TypedRecipe(
        root=root,
        name=header.name if header else "recipe",
        description=header.description if header else "",
        seed=header.seed if header else 0,
        hardware=header.hardware if header else Hardware(),
        container=header.container if header else None,
        tracking=tuple(header.tracking) if header else (),
        stages=stages,
        invalid_names=frozenset(broken),
        **known,
    )


@cache
def legal_sections() -> frozenset[str]:
    """The legal keys at the top level of a recipe."""
    return frozenset((*keys_of(Header), *SECTIONS, "stages", "extends", "profiles", "matrix"))


def normalize_sections(root: MappingNode, diagnostics: Diagnostics) -> MappingNode:
    """The tree with only legal sections. Unknown ones are reported and corrected or removed."""
    if root.entries.keys() <= legal_sections():
        return root
    from posttrain.compiler.parsing.section_names import correct_sections

    return correct_sections(root, legal_sections(), diagnostics)


def _header(root: MappingNode, diagnostics: Diagnostics) -> Header | None:
    own = {key: entry for key, entry in root.entries.items() if key in keys_of(Header)}
    return validate(Header, MappingNode(own, root.span), (), diagnostics)


def _section(
    root: MappingNode, section: str, model: type[DeclarationT], diagnostics: Diagnostics, broken: set[str]
) -> dict[str, DeclarationT]:
    found: dict[str, DeclarationT] = {}
    for name, node in _named_nodes(root, section, diagnostics, broken).items():
        declared = validate(model, node, (section, name), diagnostics)
        if declared is None:
            broken.add(name)
        else:
            found[name] = declared
    return found


def _named_nodes(
    root: MappingNode, section: str, diagnostics: Diagnostics, broken: set[str]
) -> dict[str, Node]:
    """The declarations of a section by name."""
    entry = root.entries.get(section)
    if entry is None:
        return {}
    if not isinstance(entry.node, MappingNode):
        message = f"`{section}` maps names to declarations; found {describe_node(entry.node)}"
        diagnostics.add(WRONG_TYPE, (section,), message, help=_mapping_help(entry.node))
        return {}
    for name in entry.node.entries:
        if not VALID_NAME.match(name):
            diagnostics.add(BAD_NAME, (section, name), f"invalid name `{name}`", key=True)
            broken.add(name)
    return {name: inner.node for name, inner in entry.node.entries.items()}


def _mapping_help(node: Node) -> str:
    """The help for a section that is not a mapping."""
    if isinstance(node, ScalarNode):
        return "remove the section, or add a declaration: NAME: {...}" if node.value is None else ""
    first = node.items[0] if isinstance(node, SequenceNode) and node.items else None
    named = first.entries.get("name") if isinstance(first, MappingNode) else None
    name = named.node.text if named is not None and isinstance(named.node, ScalarNode) else "NAME"
    return f"write `{name}: ...` instead of `- name: {name}`"


def _stages(root: MappingNode, diagnostics: Diagnostics, broken: set[str]) -> dict[str, AnyStage]:
    named = _named_nodes(root, "stages", diagnostics, broken)
    if not named and not diagnostics.has_errors:
        diagnostics.add(NO_STAGES, ("stages",), "the recipe has no stages", help="add a section `stages`")
    found: dict[str, AnyStage] = {}
    for name, node in named.items():
        stage = _stage(node, ("stages", name), diagnostics)
        if stage is None:
            broken.add(name)
        else:
            found[name] = stage
    return found


def _stage(node: Node, path: KeyPath, diagnostics: Diagnostics) -> AnyStage | None:
    if not isinstance(node, MappingNode):
        diagnostics.add(WRONG_TYPE, path, f"a stage is a mapping; found {describe_node(node)}")
        return None
    verbs = [key for key in node.entries if key in VERBS]
    if len(verbs) == 1:
        return validate(VERBS[verbs[0]], node, path, diagnostics)
    if verbs:
        message = f"the stage `{path[-1]}` has more than one verb: {', '.join(verbs)}"
        diagnostics.add(NO_VERB, path, message, key=True, help="keep one of them")
        return None
    return _recover_verb(node, path, diagnostics)


def _recover_verb(node: MappingNode, path: KeyPath, diagnostics: Diagnostics) -> AnyStage | None:
    """Report a stage without a verb. A misspelled verb is corrected, so that the stage is checked too."""
    from posttrain.compiler.diagnosis.key_suggestions import key_hint, suggest_key

    others = {key for verb in VERBS.values() for key in keys_of(verb)} - set(VERBS)
    first = list(node.entries)[:1]
    near = [key for key in node.entries if suggest_key(key, VERBS) and not suggest_key(key, others)]
    near += [key for key in first if suggest_key(key, VERBS)]
    suggestion = near[0] if near else None
    help, meant = key_hint(suggestion or "", VERBS, what="verbs")
    where = (*path, suggestion) if suggestion else path
    message = f"the stage `{path[-1]}` has no verb"
    diagnostics.add(NO_VERB, where, message, key=True, help=help, replace=meant)
    if suggestion is None or meant is None:
        return None
    diagnostics.set_root(rename_key(diagnostics.root, where, meant))
    corrected = rename_key(node, (suggestion,), meant)
    return validate(VERBS[meant], corrected, path, diagnostics)


def _check_duplicate_names(root: MappingNode, diagnostics: Diagnostics) -> None:
    taken: dict[str, tuple[str, str]] = {}
    for section in ("models", "datasets", "endpoints", "stages"):
        entry = root.entries.get(section)
        for name in entry.node.entries if entry and isinstance(entry.node, MappingNode) else ():
            if name in taken:
                label = Label(diagnostics.span(taken[name], key=True), "first used here")
                message = f"the name `{name}` is already in use"
                diagnostics.add(NAME_TAKEN, (section, name), message, key=True, labels=(label,))
            taken.setdefault(name, (section, name))
