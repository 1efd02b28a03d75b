"""The whole compiler, on one screen: text in; a plan, or diagnostics, out.

    text -> tree -> expanded tree -> for each leg: filled -> shaped -> named -> checked -> placed -> plan

A pass is a function in a file of its own. Each goes on as far as it can, so that one run reports
every mistake; later passes stay silent about what an earlier one has refused.
"""

from collections.abc import Mapping

from posttrain.compiler.check import Checked, check
from posttrain.compiler.checks.unused import check_unused_variables
from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.locking.pins import Pins, pin
from posttrain.compiler.lowering.lower import lower
from posttrain.compiler.lowering.merge import merge
from posttrain.compiler.placement.placed import Placed
from posttrain.compiler.reading.expand import expand
from posttrain.compiler.reading.interpolate import interpolate
from posttrain.compiler.reading.matrix import Leg, check_used, legs
from posttrain.compiler.reading.overlay import without
from posttrain.compiler.reading.parse import parse
from posttrain.compiler.reading.shape import legal_sections, shape
from posttrain.compiler.resolution.names import resolve
from posttrain.compiler.text.source import Request
from posttrain.compiler.text.tree import Mapped
from posttrain.spec.diagnostic import Diagnostic, in_file_order
from posttrain.spec.lockfile import Id
from posttrain.spec.plan import Plan
from posttrain.spec.record import record
from posttrain.spec.training import Train


@record(kw_only=True)
class Outcome:
    """A plan when there is no error; all that was found, in file order, in any case."""

    plan: Plan | None
    diagnostics: tuple[Diagnostic, ...]
    # What the recipe names on the hub, for `recipe lock`.
    asked: frozenset[Id] = frozenset()


def compile_recipe(request: Request) -> Outcome:
    findings = Findings()
    pins = _pins(request, findings)
    plan = _compiled(request, pins, findings)
    if request.lock is not None:
        plan = _held(plan, pins, findings)
    return Outcome(plan=plan, diagnostics=tuple(in_file_order(findings.found)), asked=frozenset(pins.asked))


def _pins(request: Request, findings: Findings) -> Pins:
    """The revisions that the lock holds, where the compilation goes by one."""
    if request.lock is None:
        return Pins()
    from posttrain.compiler.locking.held import pins_of

    return pins_of(request.lock, findings)


def _held(plan: Plan | None, pins: Pins, findings: Findings) -> Plan | None:
    """The plan, if the lock speaks of all that it needs."""
    from posttrain.compiler.locking.held import check_held

    check_held(plan, pins, findings)
    return None if findings.failed else plan


def _compiled(request: Request, pins: Pins, findings: Findings) -> Plan | None:
    tree = parse(request.source, findings)
    if tree is None or _is_of_another_tool(tree, findings):
        return None
    findings.attach(tree)
    whole = expand(tree, request, findings)
    combinations = legs(whole, findings)
    used: set[str] = set()
    plans = [_leg(whole, leg, used, request, pins, findings) for leg in combinations]
    check_used(whole, combinations, used, findings)
    if request.as_written:
        check_unused_variables(whole, used, request.source.name, findings)
    whole_plans = [plan for plan in plans if plan is not None]
    return merge(combinations, whole_plans) if len(whole_plans) == len(plans) else None


def _is_of_another_tool(tree: Mapped, findings: Findings) -> bool:
    if not {"recipe", "models", "stages"}.isdisjoint(tree.entries):
        return False
    from posttrain.compiler.reading.sections import is_of_another_tool

    return is_of_another_tool(tree, legal_sections(), findings)


def _leg(
    whole: Mapped, leg: Leg, used: set[str], request: Request, pins: Pins, findings: Findings
) -> Plan | None:
    """The plan of one combination of the matrix, or of the recipe as it stands."""
    filled = pin(interpolate(without(whole, "matrix"), leg, used, findings), pins)
    findings.attach(filled)
    recipe = shape(filled, findings)
    named = resolve(recipe, request.catalog, findings)
    checked = check(named, request, findings)
    placed = _placed(checked, findings)
    return None if findings.failed else lower(checked, placed, request)


def _placed(checked: Checked, findings: Findings) -> Mapping[str, Placed]:
    """The stages on their target. A recipe that says nothing of one is not weighed: what that takes
    to import is left alone."""
    recipe = checked.named.recipe
    if "hardware" not in recipe.root.entries and not any(
        isinstance(stage, Train) and stage.placement != "auto" for stage in recipe.stages.values()
    ):
        return {}
    from posttrain.compiler.placement.place import place

    return place(checked, findings)
