"""Fourth pass: what each name refers to."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Literal

from posttrain.compiler.diagnosis.examples import MINIMAL, minimal
from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.diagnosis.suggest import hint
from posttrain.compiler.reading.shape import NAME, Shaped
from posttrain.compiler.resolution.order import CIRCLE, in_order
from posttrain.compiler.resolution.uses import (
    Ref,
    Thing,
    Use,
    measured,
    reward_uses,
    scored_with,
    uses_of,
    writers_of,
)
from posttrain.spec.diagnostic import Code
from posttrain.spec.extension import Catalog
from posttrain.spec.making import Export, Generate, Script
from posttrain.spec.measuring import Benchmark, Evaluate, Gate
from posttrain.spec.record import record
from posttrain.spec.training import Train

__all__ = ["CODES", "Named", "Ref", "Thing", "resolve", "writers_of"]

UNKNOWN_NAME = Code(
    "PT0301",
    "a name that nothing has",
    "error",
    "A reference names a declaration or a stage of this recipe; a part of a dataset is written"
    " NAME.PART, a metric STAGE.METRIC.",
    wrong=minimal(("model: base", "model: bass")),
    right=MINIMAL,
)
WRONG_KIND = Code(
    "PT0302",
    "a name for something else",
    "error",
    "The name exists, but stands for a thing that cannot be used here: a model where rows are wanted,"
    " say, or an eval where weights are.",
    wrong=minimal(("data: sums.train", "data: base")),
    right=MINIMAL,
)
CODES = (UNKNOWN_NAME, WRONG_KIND, CIRCLE)


@record(kw_only=True)
class Named:
    """A recipe whose references are resolved: (owner, role) to what is meant."""

    recipe: Shaped
    refs: Mapping[tuple[str, str], Ref]
    # Models, datasets and stages as `thing:name`, each after all that it is made from.
    order: tuple[str, ...]

    @cached_property
    def by_owner(self) -> Mapping[str, Mapping[str, Ref]]:
        """What each owner refers to, by role."""
        found: dict[str, dict[str, Ref]] = {}
        for (owner, role), ref in self.refs.items():
            found.setdefault(owner, {})[role] = ref
        return found


def resolve(recipe: Shaped, catalog: Catalog, findings: Findings) -> Named:
    refs = _resolved(uses_of(recipe), recipe, findings)
    refs |= measured(recipe, refs)
    refs |= scored_with(recipe, _resolved(reward_uses(recipe, catalog), recipe, findings))
    return Named(recipe=recipe, refs=refs, order=in_order(recipe, refs, findings))


def _resolved(uses: Iterator[Use], recipe: Shaped, findings: Findings) -> dict[tuple[str, str], Ref]:
    found = {(use.owner, use.role): _resolve(use, recipe, findings) for use in uses}
    return {use: ref for use, ref in found.items() if ref is not None}


def _resolve(use: Use, recipe: Shaped, findings: Findings) -> Ref | None:
    name, dot, part = use.text.partition(".")
    if name in recipe.broken or use.text in recipe.broken:
        return None
    things: dict[Thing, Mapping[str, object]] = {
        "model": recipe.models,
        "dataset": recipe.datasets,
        "endpoint": recipe.endpoints,
        "stage": recipe.stages,
    }
    for thing, declared in things.items():
        if name in declared:
            ref = Ref(thing, name, part if dot else None)
            return ref if _fits(ref, use, recipe, findings) else None
    fitting = [
        n for thing, declared in things.items() for n in declared if _suits(Ref(thing, n), use, recipe)
    ]
    _unknown(use, [n for n in (*recipe.broken, *fitting) if NAME.match(n)], findings)
    return None


def _unknown(use: Use, legal: list[str], findings: Findings) -> None:
    """Report a name that nothing has. A name on the hub is a thing to declare."""
    name, _, part = use.text.partition(".")
    help, meant = hint(name, legal, what="names that fit here")
    if "/" in use.text:
        declared = "models: {NAME: {from: %s}}" if use.wanted in ("weights", "writer") else _ROWS
        help, meant = f"declare it, and write its name here: {declared % use.text}", None
        findings.add(UNKNOWN_NAME, use.path, f"nothing is named `{use.text}`", help=help)
        return
    replace = f"{meant}.{part}" if meant and part else meant
    findings.add(UNKNOWN_NAME, use.path, f"nothing is named `{name}`", help=help, replace=replace)


_ROWS = "datasets: {NAME: {from: {hub: {name: %s, columns: ...}}}}"


def _suits(ref: Ref, use: Use, recipe: Shaped) -> bool:
    makes = _makes(ref, recipe)
    if f"{ref.thing}:{ref.name}" == use.owner:
        return False
    match use.wanted:
        case "weights":
            return makes == "weights"
        case "rows":
            return makes == "rows"
        case "writer":
            return makes == "weights" or ref.thing == "endpoint"
        case "anything":
            return makes != "nothing"


def _makes(ref: Ref, recipe: Shaped) -> Literal["weights", "rows", "figures", "files", "nothing"]:
    match ref.thing:
        case "model":
            return "weights"
        case "dataset":
            return "rows"
        case "endpoint":
            return "nothing"
        case "stage":
            match recipe.stages[ref.name]:
                case Train() | Export():
                    return "weights"
                case Generate():
                    return "rows"
                case Evaluate() | Benchmark() | Gate():
                    return "figures"
                case Script():
                    return "files"


_WORDS = {
    "weights": "a model is",
    "rows": "rows are",
    "writer": "a model or an endpoint is",
    "anything": "a product is",
}


def _fits(ref: Ref, use: Use, recipe: Shaped, findings: Findings) -> bool:
    if _suits(ref, use, recipe):
        return _has_parts(ref, use, recipe, findings)
    if ref.node == use.owner:
        findings.add(CIRCLE, use.path, f"`{ref.name}` names itself")
        return False
    what = f"{ref.thing} `{ref.name}`"
    makes = {"weights": "a model", "rows": "rows", "figures": "figures", "files": "files"}
    given = makes.get(_makes(ref, recipe), "text")
    message = f"{_WORDS[use.wanted]} wanted here; the {what} gives {given}"
    findings.add(WRONG_KIND, use.path, message)
    return False


def _has_parts(ref: Ref, use: Use, recipe: Shaped, findings: Findings) -> bool:
    """Only rows have parts, and a part has a name."""
    if ref.part is None or (ref.part and _makes(ref, recipe) == "rows"):
        return True
    what = "has no parts" if ref.part else "ends in a dot"
    message = f"the {ref.thing} `{ref.name}` {what}" if ref.part else f"`{use.text}` {what}"
    findings.add(UNKNOWN_NAME, use.path, message, help=f"write {ref.name}", replace=ref.name)
    return False
