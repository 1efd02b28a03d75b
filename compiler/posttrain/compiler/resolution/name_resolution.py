"""Fifth pass: resolves the names of a recipe to declarations and stages."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Literal

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE, minimal_recipe
from posttrain.compiler.parsing.typed_recipe import VALID_NAME, TypedRecipe
from posttrain.compiler.resolution.references import (
    NodeKind,
    Ref,
    ReferenceSite,
    find_references,
    inference_models,
    inloop_eval_refs,
    reward_model_refs,
    reward_references,
)
from posttrain.compiler.resolution.topological_order import CIRCULAR_REFERENCE, topological_order
from posttrain.spec.artifact_stages import Export, Generate, Script, ScriptOutput
from posttrain.spec.diagnostic import Code
from posttrain.spec.eval_stages import Benchmark, Evaluate, Gate
from posttrain.spec.extension import Catalog
from posttrain.spec.recipe import AnyStage
from posttrain.spec.record import record
from posttrain.spec.suggestions import hint
from posttrain.spec.train_stage import Train

__all__ = ["CODES", "NodeKind", "Ref", "ResolvedRecipe", "inference_models", "resolve_names"]

UNKNOWN_NAME = Code(
    "PT0301",
    "unknown name",
    "error",
    "A reference must name a declaration or a stage of this recipe. A part of a dataset is written NAME.PART,"
    " a metric STAGE.METRIC.",
    wrong=minimal_recipe(("model: base", "model: bass")),
    right=MINIMAL_RECIPE,
)
WRONG_KIND = Code(
    "PT0302",
    "wrong kind of reference",
    "error",
    "The name exists, but refers to something of the wrong kind: for example a model where rows are expected,"
    " or an eval where a model is expected.",
    wrong=minimal_recipe(("data: sums.train", "data: base")),
    right=MINIMAL_RECIPE,
)
CODES = (UNKNOWN_NAME, WRONG_KIND, CIRCULAR_REFERENCE)


@record(kw_only=True)
class ResolvedRecipe:
    """A recipe with resolved references, by owner and role."""

    recipe: TypedRecipe
    refs: Mapping[tuple[str, str], Ref]
    # Models, datasets and stages as `kind:name`, in topological order.
    order: tuple[str, ...]

    @cached_property
    def by_owner(self) -> Mapping[str, Mapping[str, Ref]]:
        """The references of each owner, by role."""
        owners: dict[str, dict[str, Ref]] = {}
        for (owner, role), ref in self.refs.items():
            owners.setdefault(owner, {})[role] = ref
        return owners


def resolve_names(recipe: TypedRecipe, catalog: Catalog, diagnostics: Diagnostics) -> ResolvedRecipe:
    refs = _resolve_all(find_references(recipe), recipe, diagnostics)
    refs |= inloop_eval_refs(recipe, refs)
    refs |= reward_model_refs(recipe, _resolve_all(reward_references(recipe, catalog), recipe, diagnostics))
    return ResolvedRecipe(recipe=recipe, refs=refs, order=topological_order(recipe, refs, diagnostics))


def _resolve_all(
    uses: Iterator[ReferenceSite], recipe: TypedRecipe, diagnostics: Diagnostics
) -> dict[tuple[str, str], Ref]:
    found = {(use.owner, use.role): _resolve_one(use, recipe, diagnostics) for use in uses}
    return {use: ref for use, ref in found.items() if ref is not None}


def _resolve_one(use: ReferenceSite, recipe: TypedRecipe, diagnostics: Diagnostics) -> Ref | None:
    name, dot, part = use.text.partition(".")
    if name in recipe.invalid_names or use.text in recipe.invalid_names:
        return None
    things: dict[NodeKind, Mapping[str, object]] = {
        "model": recipe.models,
        "dataset": recipe.datasets,
        "endpoint": recipe.endpoints,
        "stage": recipe.stages,
    }
    for thing, declared in things.items():
        if name in declared:
            ref = _reference(thing, name, part if dot else None, use, recipe)
            return ref if _check_compatible(ref, use, recipe, diagnostics) else None
    fitting = [
        n
        for thing, declared in things.items()
        for n in declared
        if _is_compatible(Ref(thing, n), use, recipe)
    ]
    _report_unknown(use, [n for n in (*recipe.invalid_names, *fitting) if VALID_NAME.match(n)], diagnostics)
    return None


def _reference(thing: NodeKind, name: str, part: str | None, use: ReferenceSite, recipe: TypedRecipe) -> Ref:
    """The reference, which names an output of a script stage or implies the only one that fits."""
    outputs = script_outputs(recipe.stages[name]) if thing == "stage" else {}
    if part is not None:
        named = part if part in outputs else None
        return Ref(thing, name, None if named else part, named, is_output_named=named is not None)
    wanted = _OUTPUTS_FOR.get(use.expected, ())
    fitting = [output for output, kind in outputs.items() if kind in wanted]
    return Ref(thing, name, output=fitting[0] if len(fitting) == 1 else None)


# The kinds of outputs that a reference without a name can mean.
_OUTPUTS_FOR = {"weights": ("weights",), "writer": ("weights",), "rows": ("rows",)}


def script_outputs(stage: AnyStage) -> dict[str, Literal["weights", "rows"]]:
    """The declared outputs of a script stage, by name; none for other stages."""
    if not isinstance(stage, Script):
        return {}
    return {
        name: "rows" if isinstance(output, ScriptOutput) and output.rows is not None else "weights"
        for name, output in stage.outputs.items()
    }


def _report_unknown(use: ReferenceSite, legal: list[str], diagnostics: Diagnostics) -> None:
    """Report an unknown name. The help for a hub name is a declaration."""
    name, _, part = use.text.partition(".")
    help, meant = hint(name, legal, what="names that fit here")
    if "/" in use.text:
        declared = "models: {NAME: {from: %s}}" if use.expected in ("weights", "writer") else _DATASET_EXAMPLE
        help, meant = f"declare it and use the declared name: {declared % use.text}", None
        diagnostics.add(UNKNOWN_NAME, use.path, f"unknown name `{use.text}`", help=help)
        return
    replace = f"{meant}.{part}" if meant and part else meant
    labels = diagnostics.removal_labels(name, "models", "datasets", "endpoints", "stages")
    message = f"unknown name `{name}`"
    diagnostics.add(UNKNOWN_NAME, use.path, message, help=help, labels=labels, replace=replace)


_DATASET_EXAMPLE = "datasets: {NAME: {from: {hub: {name: %s, columns: ...}}}}"


def _is_compatible(ref: Ref, use: ReferenceSite, recipe: TypedRecipe) -> bool:
    makes = _product_kind(ref, recipe)
    if f"{ref.kind}:{ref.name}" == use.owner:
        return False
    match use.expected:
        case "weights":
            return makes == "weights"
        case "rows":
            return makes == "rows"
        case "writer":
            return makes == "weights" or ref.kind == "endpoint"
        case "anything":
            return makes != "nothing"


def _product_kind(ref: Ref, recipe: TypedRecipe) -> Literal["weights", "rows", "figures", "files", "nothing"]:
    match ref.kind:
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
                case Script() as stage:
                    return "files" if ref.output is None else script_outputs(stage)[ref.output]


_EXPECTED_PHRASES = {
    "weights": "a model",
    "rows": "rows",
    "writer": "a model or an endpoint",
    "anything": "a product",
}


def _check_compatible(ref: Ref, use: ReferenceSite, recipe: TypedRecipe, diagnostics: Diagnostics) -> bool:
    if _is_compatible(ref, use, recipe):
        return _check_part(ref, use, recipe, diagnostics)
    if ref.kind == "stage" and ref.node != use.owner and not _check_output(ref, use, recipe, diagnostics):
        return False
    if ref.node == use.owner:
        diagnostics.add(CIRCULAR_REFERENCE, use.path, f"`{ref.name}` refers to itself")
        return False
    products = {"weights": "a model", "rows": "rows", "figures": "metrics", "files": "files"}
    product = products.get(_product_kind(ref, recipe), "text")
    message = (
        f"expected {_EXPECTED_PHRASES[use.expected]}, but the {ref.kind} `{ref.name}` produces {product}"
    )
    diagnostics.add(WRONG_KIND, use.path, message)
    return False


def _check_output(ref: Ref, use: ReferenceSite, recipe: TypedRecipe, diagnostics: Diagnostics) -> bool:
    """Check that a reference to a script stage determines one of its outputs."""
    outputs = script_outputs(recipe.stages[ref.name])
    if not outputs or ref.output is not None:
        return True
    if ref.part is not None:
        help, meant = hint(ref.part, outputs, what="outputs")
        replace = f"{ref.name}.{meant}" if meant else None
        message = f"the stage `{ref.name}` has no output `{ref.part}`"
        diagnostics.add(UNKNOWN_NAME, use.path, message, help=help, replace=replace)
        return False
    fitting = [name for name, kind in outputs.items() if kind in _OUTPUTS_FOR.get(use.expected, ())]
    if len(fitting) < 2:
        return True
    message = f"the stage `{ref.name}` has several outputs that fit"
    listed = " or ".join(f"{ref.name}.{name}" for name in fitting)
    diagnostics.add(WRONG_KIND, use.path, message, help=f"write {listed}")
    return False


def _check_part(ref: Ref, use: ReferenceSite, recipe: TypedRecipe, diagnostics: Diagnostics) -> bool:
    """Check the part of a reference: only rows have parts, and a part has a name."""
    if ref.part is None or (ref.part and _product_kind(ref, recipe) == "rows"):
        return True
    if ref.kind == "stage" and ref.part and script_outputs(recipe.stages[ref.name]):
        return _check_output(ref, use, recipe, diagnostics)
    what = "has no parts" if ref.part else "ends in a dot"
    message = f"the {ref.kind} `{ref.name}` {what}" if ref.part else f"`{use.text}` {what}"
    diagnostics.add(UNKNOWN_NAME, use.path, message, help=f"write {ref.name}", replace=ref.name)
    return False
