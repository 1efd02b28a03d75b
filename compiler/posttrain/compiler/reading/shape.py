"""Third pass: the tree to a typed recipe. What does not fit is reported and left out.

Declarations are held to their models one by one, so that a mistake in one hides nothing in another.
The names of those left out are kept: a reference to one of them is no mistake of its own.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from posttrain.compiler.diagnosis.examples import MINIMAL, minimal
from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.reading.validate import WRONG_TYPE, describe, validate
from posttrain.compiler.text.tree import Leaf, Listed, Mapped, Node, Path, renamed
from posttrain.spec.declared import Declaration, keys_of
from posttrain.spec.diagnostic import Code, Label
from posttrain.spec.hardware import Container, Hardware
from posttrain.spec.materials import Dataset, Endpoint, Environment, Reward
from posttrain.spec.models import Model
from posttrain.spec.recipe import SECTIONS, VERBS, AnyStage, Header
from posttrain.spec.record import record

NO_VERB = Code(
    "PT0211",
    "a stage that does not say what it does",
    "error",
    "A stage is known by its verb: exactly one of the keys train, eval, benchmark, gate, export, generate,"
    " script.",
    wrong=minimal(("{train: sft,", "{trains: sft,")),
    right=MINIMAL,
)
BAD_NAME = Code(
    "PT0212",
    "a name that cannot be used",
    "error",
    "Names of models, datasets, rewards and stages begin with a letter and hold at most 64 letters,"
    " digits, `-` and `_`. A dot would read as a part of something.",
    wrong=minimal(("  base:", "  my.base:"), ("model: base", "model: my.base")),
    right=MINIMAL,
)
NO_STAGES = Code(
    "PT0213",
    "a recipe without stages",
    "error",
    "Stages are what is done; a recipe needs at least one. A file that only others extend is not"
    " compiled by itself.",
    wrong="recipe: 1\nname: demo\nstages: {}\n",
    right=MINIMAL,
)
NAME_TAKEN = Code(
    "PT0214",
    "one name for two things",
    "error",
    "A stage, a model, a dataset and an endpoint share one space of names, since a reference to any of"
    " them is just the name.",
    wrong=minimal(("  check: {eval: sft", "  base: {eval: sft")),
    right=MINIMAL,
)
CODES = (NO_VERB, BAD_NAME, NO_STAGES, NAME_TAKEN)

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}\Z")
Kind = TypeVar("Kind", bound=Declaration)


@record(kw_only=True)
class Shaped:
    """A recipe's declarations that are well-formed, and the names of those that are not."""

    root: Mapped
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
    broken: frozenset[str]


def shape(root: Mapped, findings: Findings) -> Shaped:
    root = with_known_sections(root, findings)
    findings.attach(root)
    header = _header(root, findings)
    broken: set[str] = set()
    found = {section: _section(root, section, model, findings, broken) for section, model in SECTIONS.items()}
    stages = _stages(root, findings, broken)
    _check_names_apart(root, findings)
    known: dict[str, Any] = {**found}
    return Shaped(
        root=root,
        name=header.name if header else "recipe",
        description=header.description if header else "",
        seed=header.seed if header else 0,
        hardware=header.hardware if header else Hardware(),
        container=header.container if header else None,
        tracking=tuple(header.tracking) if header else (),
        stages=stages,
        broken=frozenset(broken),
        **known,
    )


@cache
def legal_sections() -> frozenset[str]:
    """What may stand at the top level of a recipe."""
    return frozenset((*keys_of(Header), *SECTIONS, "stages", "extends", "profiles", "matrix"))


def with_known_sections(root: Mapped, findings: Findings) -> Mapped:
    """The tree without sections that have no meaning: those are reported, and taken for what was meant."""
    if root.entries.keys() <= legal_sections():
        return root
    from posttrain.compiler.reading.sections import with_sections_meant

    return with_sections_meant(root, legal_sections(), findings)


def _header(root: Mapped, findings: Findings) -> Header | None:
    own = {key: entry for key, entry in root.entries.items() if key in keys_of(Header)}
    return validate(Header, Mapped(own, root.span), (), findings)


def _section(
    root: Mapped, section: str, model: type[Kind], findings: Findings, broken: set[str]
) -> dict[str, Kind]:
    found: dict[str, Kind] = {}
    for name, node in _named(root, section, findings, broken).items():
        declared = validate(model, node, (section, name), findings)
        if declared is None:
            broken.add(name)
        else:
            found[name] = declared
    return found


def _named(root: Mapped, section: str, findings: Findings, broken: set[str]) -> dict[str, Node]:
    """The declarations of a section by name."""
    entry = root.entries.get(section)
    if entry is None:
        return {}
    if not isinstance(entry.node, Mapped):
        message = f"`{section}` maps names to declarations; found {describe(entry.node)}"
        findings.add(WRONG_TYPE, (section,), message, help=_as_mapping(entry.node))
        return {}
    for name in entry.node.entries:
        if not NAME.match(name):
            findings.add(BAD_NAME, (section, name), f"`{name}` cannot be a name", key=True)
            broken.add(name)
    return {name: inner.node for name, inner in entry.node.entries.items()}


def _as_mapping(node: Node) -> str:
    """How a section that is no mapping was meant to be written."""
    if isinstance(node, Leaf):
        return "leave the section out, or name what it declares: NAME: {...}" if node.value is None else ""
    first = node.items[0] if isinstance(node, Listed) and node.items else None
    named = first.entries.get("name") if isinstance(first, Mapped) else None
    name = named.node.text if named is not None and isinstance(named.node, Leaf) else "NAME"
    return f"write `{name}: ...` in place of `- name: {name}`"


def _stages(root: Mapped, findings: Findings, broken: set[str]) -> dict[str, AnyStage]:
    named = _named(root, "stages", findings, broken)
    if not named and not findings.failed:
        findings.add(NO_STAGES, ("stages",), "the recipe has no stages", help="add a section `stages`")
    found: dict[str, AnyStage] = {}
    for name, node in named.items():
        stage = _stage(node, ("stages", name), findings)
        if stage is None:
            broken.add(name)
        else:
            found[name] = stage
    return found


def _stage(node: Node, path: Path, findings: Findings) -> AnyStage | None:
    if not isinstance(node, Mapped):
        findings.add(WRONG_TYPE, path, f"a stage is a mapping; found {describe(node)}")
        return None
    verbs = [key for key in node.entries if key in VERBS]
    if len(verbs) == 1:
        return validate(VERBS[verbs[0]], node, path, findings)
    if verbs:
        message = f"the stage `{path[-1]}` has more than one verb: {', '.join(verbs)}"
        findings.add(NO_VERB, path, message, key=True, help="keep one of them")
        return None
    return _verb_meant(node, path, findings)


def _verb_meant(node: Mapped, path: Path, findings: Findings) -> AnyStage | None:
    """Report a stage without a verb; where one is misspelt, the stage is taken for what was meant."""
    from posttrain.compiler.diagnosis.synonyms import key_hint, key_meant

    others = {key for verb in VERBS.values() for key in keys_of(verb)} - set(VERBS)
    first = list(node.entries)[:1]
    near = [key for key in node.entries if key_meant(key, VERBS) and not key_meant(key, others)]
    near += [key for key in first if key_meant(key, VERBS)]
    told = near[0] if near else None
    help, meant = key_hint(told or "", VERBS, what="verbs")
    where = (*path, told) if told else path
    message = f"the stage `{path[-1]}` has no verb"
    findings.add(NO_VERB, where, message, key=True, help=help, replace=meant)
    if told is None or meant is None:
        return None
    findings.attach(renamed(findings.root, where, meant))
    mended = renamed(node, (told,), meant)
    return validate(VERBS[meant], mended, path, findings)


def _check_names_apart(root: Mapped, findings: Findings) -> None:
    taken: dict[str, tuple[str, str]] = {}
    for section in ("models", "datasets", "endpoints", "stages"):
        entry = root.entries.get(section)
        for name in entry.node.entries if entry and isinstance(entry.node, Mapped) else ():
            if name in taken:
                label = Label(findings.span(taken[name], key=True), "first used here")
                message = f"the name `{name}` stands for something else already"
                findings.add(NAME_TAKEN, (section, name), message, key=True, labels=(label,))
            taken.setdefault(name, (section, name))
