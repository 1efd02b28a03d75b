"""The compiler pipeline: turns the text of a recipe into a plan or diagnostics.

    parse -> expand -> for each leg of the matrix: interpolate -> type -> resolve -> check -> place -> lower

Every pass is a function in its own module. A pass continues after errors, so that one run reports all of
them. Later passes do not report what an earlier pass has rejected.
"""

from collections.abc import Mapping
from dataclasses import replace

from posttrain.compiler.checks.unused import (
    UnusedReport,
    check_unused,
    check_unused_nodes,
    check_unused_variables,
)
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.lockfile.pins import Pins, apply_pins
from posttrain.compiler.parsing.expand import apply_overlays, merge_extended_files, profiles_of
from posttrain.compiler.parsing.interpolate import interpolate
from posttrain.compiler.parsing.matrix import Leg, check_unused_axes, expand_matrix
from posttrain.compiler.parsing.overlay import drop_keys
from posttrain.compiler.parsing.parse import parse
from posttrain.compiler.parsing.typed_recipe import build_typed_recipe, legal_sections
from posttrain.compiler.placement.stage_placement import StagePlacement
from posttrain.compiler.resolution.name_resolution import resolve_names
from posttrain.compiler.semantic_checks import CheckedRecipe, check_semantics
from posttrain.compiler.text.compile_request import CompileRequest, ExtendedArtifact
from posttrain.compiler.text.yaml_tree import MappingNode
from posttrain.spec.diagnostic import Diagnostic, sort_by_location
from posttrain.spec.lockfile import EntryId
from posttrain.spec.plan import Plan
from posttrain.spec.record import record
from posttrain.spec.train_stage import Train


@record(kw_only=True)
class CompileResult:
    """All diagnostics in file order, and the plan, if the request needs one and has no errors."""

    plan: Plan | None
    diagnostics: tuple[Diagnostic, ...]
    # The models and datasets on the hub that the recipe names, for `recipe lock`.
    hub_references: frozenset[EntryId] = frozenset()
    # The artifacts in registries that it extends.
    artifacts: tuple[str, ...] = ()


def compile_recipe(request: CompileRequest) -> CompileResult:
    diagnostics = Diagnostics()
    artifacts: list[str] = []
    request = record_artifacts(request, artifacts)
    tree = _read_tree(request, diagnostics)
    plan, pins, found = _compile_variant(tree, request, diagnostics)
    if tree is not None and request.check_profiles and profiles_of(tree):
        from posttrain.compiler.profile_checks import check_profiles

        found = check_profiles(
            profiles_of(tree),
            request,
            found,
            lambda other: _compile_variant(tree, other, diagnostics)[2],
        )
    return CompileResult(
        plan=plan,
        diagnostics=tuple(sort_by_location(found)),
        hub_references=frozenset(pins.hub_references),
        artifacts=tuple(artifacts),
    )


def record_artifacts(request: CompileRequest, names: list[str]) -> CompileRequest:
    """The request, which adds the references that it reads to a list."""
    read = request.read_artifact
    if read is None:
        return request

    def read_artifact(reference: str) -> ExtendedArtifact | str:
        names.append(reference)
        return read(reference)

    return replace(request, read_artifact=read_artifact)


def _read_tree(request: CompileRequest, diagnostics: Diagnostics) -> MappingNode | None:
    """The tree of the recipe merged over the files that it extends; None if it is not a recipe."""
    tree = parse(request.source, diagnostics)
    if tree is None or _is_foreign_config(tree, diagnostics):
        return None
    return merge_extended_files(tree, request, diagnostics)


def _compile_variant(
    tree: MappingNode | None, request: CompileRequest, parsed: Diagnostics
) -> tuple[Plan | None, Pins, list[Diagnostic]]:
    """Compile a tree with the profiles of a request. The diagnostics include those of the parse."""
    diagnostics = parsed.fork()
    pins = _load_pins(request, diagnostics)
    plan = _compile(tree, request, pins, diagnostics) if tree is not None else None
    if request.lock is not None:
        plan = _enforce_lock(plan, pins, diagnostics)
    return plan, pins, diagnostics.collected


def _load_pins(request: CompileRequest, diagnostics: Diagnostics) -> Pins:
    """The revisions of the lockfile, if the compilation uses one."""
    if request.lock is None:
        return Pins()
    from posttrain.compiler.lockfile.lock_enforcement import load_pins

    return load_pins(request.lock, diagnostics)


def _enforce_lock(plan: Plan | None, pins: Pins, diagnostics: Diagnostics) -> Plan | None:
    """The plan, if the lockfile has every entry that it needs."""
    from posttrain.compiler.lockfile.lock_enforcement import enforce_lock

    enforce_lock(plan, pins, diagnostics)
    return None if diagnostics.has_errors else plan


def _compile(tree: MappingNode, request: CompileRequest, pins: Pins, diagnostics: Diagnostics) -> Plan | None:
    diagnostics.set_root(tree)
    whole = apply_overlays(tree, request, diagnostics)
    combinations = expand_matrix(whole, diagnostics)
    used: set[str] = set()
    report = UnusedReport(file=request.source.name, base=None if request.is_unmodified else tree)
    plans = [_compile_leg(whole, leg, used, report, request, pins, diagnostics) for leg in combinations]
    check_unused_axes(whole, combinations, used, diagnostics)
    check_unused_variables(whole, used, report, diagnostics)
    whole_plans = [plan for plan in plans if plan is not None]
    if len(whole_plans) < len(plans):
        return None
    from posttrain.compiler.lowering.leg_merge import merge_legs

    return merge_legs(combinations, whole_plans)


def _is_foreign_config(tree: MappingNode, diagnostics: Diagnostics) -> bool:
    if not {"recipe", "models", "stages"}.isdisjoint(tree.entries):
        return False
    from posttrain.compiler.parsing.section_names import is_foreign_config

    return is_foreign_config(tree, legal_sections(), diagnostics)


def _compile_leg(
    whole: MappingNode,
    leg: Leg,
    used: set[str],
    report: UnusedReport,
    request: CompileRequest,
    pins: Pins,
    diagnostics: Diagnostics,
) -> Plan | None:
    """The plan of one combination of the matrix, or of a recipe without a matrix. `recipe validate` needs no
    plan: lowering finds no errors, and its imports, models and keys take a tenth of the time."""
    filled = apply_pins(interpolate(drop_keys(whole, "matrix"), leg, used, diagnostics), pins)
    diagnostics.set_root(filled)
    recipe = build_typed_recipe(filled, diagnostics)
    resolved = resolve_names(recipe, request.catalog, diagnostics)
    checked = check_semantics(resolved, request, diagnostics)
    check_unused(resolved, report, diagnostics)
    check_unused_nodes(resolved, checked.graphs, checked.evals, report, diagnostics)
    placed = _place_stages(checked, diagnostics)
    if diagnostics.has_errors or not request.needs_plan:
        return None
    from posttrain.compiler.lowering.lower import lower

    return lower(checked, _add_api_estimates(checked, placed), request)


def _add_api_estimates(
    checked: CheckedRecipe, placed: Mapping[str, StagePlacement]
) -> Mapping[str, StagePlacement]:
    """Estimate the calls of endpoints. Recipes without endpoints skip the imports for it."""
    if not checked.resolved.recipe.endpoints:
        return placed
    from posttrain.compiler.api_costs.api_estimates import add_api_estimates

    return add_api_estimates(checked, placed)


def _place_stages(checked: CheckedRecipe, diagnostics: Diagnostics) -> Mapping[str, StagePlacement]:
    """Place the stages on the target. Recipes without `hardware` and `placement` skip the imports for it."""
    recipe = checked.resolved.recipe
    if "hardware" not in recipe.root.entries and not any(
        isinstance(stage, Train) and stage.placement != "auto" for stage in recipe.stages.values()
    ):
        return {}
    from posttrain.compiler.placement.place_stages import place_stages

    return place_stages(checked, diagnostics)
