"""Last pass: lowers a checked recipe to the steps of a plan, and computes their keys."""

from collections.abc import Mapping
from typing import Any

from posttrain.compiler.lowering.declaration_places import declaration_places, source_location
from posttrain.compiler.lowering.disk_estimate import with_disk_estimate
from posttrain.compiler.lowering.draft_parts import Draft, step_id
from posttrain.compiler.lowering.launch_key import MICRO_BATCH_SIZE, PROCESSES
from posttrain.compiler.lowering.step_drafts import apply_placement, draft_step
from posttrain.compiler.placement.stage_placement import StagePlacement
from posttrain.compiler.semantic_checks import CheckedRecipe
from posttrain.compiler.stages.branches import gates_before
from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.spec.declaration_fields import dump_declaration
from posttrain.spec.keys import key_from_parts, key_parts
from posttrain.spec.plan import Plan, Resources, Step
from posttrain.spec.stage import Stage
from posttrain.spec.variable_rules import key_variables

# A recipe without `hardware` runs on the machine itself, in single precision.
_DEFAULT_PLACEMENT = StagePlacement()


def lower(checked: CheckedRecipe, placed: Mapping[str, StagePlacement], request: CompileRequest) -> Plan:
    recipe = checked.resolved.recipe
    steps: dict[str, Step] = {}
    gates, stopping = gates_before(checked.resolved), _nodes_stopping_on_failure(checked)
    for node in _reachable_nodes(checked):
        thing, _, name = node.partition(":")
        stage = recipe.stages[name] if thing == "stage" else None
        id = step_id(thing, name)
        drafted = draft_step(node, checked, request)
        if thing == "stage":
            drafted = apply_placement(drafted, placed.get(name, _DEFAULT_PLACEMENT))
        step = _build_step(node, drafted, stage, gates.get(name, ()), steps, checked, request)
        steps[id] = step if node in stopping else step.model_copy(update={"on_failure": "continue"})
    return Plan(
        name=recipe.name,
        description=recipe.description,
        seed=recipe.seed,
        steps=tuple(steps.values()),
        target=dump_declaration(recipe.hardware),
        tracking=recipe.tracking,
    )


def _dependencies(checked: CheckedRecipe) -> dict[str, list[str]]:
    """The nodes that each node reads."""
    made_from: dict[str, list[str]] = {}
    for (owner, _), ref in checked.resolved.refs.items():
        made_from.setdefault(owner, []).append(ref.node)
    return made_from


def _nodes_stopping_on_failure(checked: CheckedRecipe) -> set[str]:
    """The nodes whose failure stops independent steps: stages with `on_failure: stop`, and the models and
    datasets that they read."""
    made_from, stages = _dependencies(checked), checked.resolved.recipe.stages
    found: set[str] = set()
    for node in reversed(checked.resolved.order):
        thing, _, name = node.partition(":")
        if thing == "stage" and stages[name].on_failure == "stop":
            found.add(node)
        if node in found:
            found.update(each for each in made_from.get(node, ()) if not each.startswith("stage:"))
    return found


def _reachable_nodes(checked: CheckedRecipe) -> list[str]:
    """The stages and their dependencies, in order. Unused declarations are omitted."""
    made_from = _dependencies(checked)
    needed: set[str] = set()
    for node in reversed(checked.resolved.order):
        if node.startswith("stage:") or node in needed:
            needed.update((node, *made_from.get(node, ())))
    return [node for node in checked.resolved.order if node in needed]


def _build_step(
    node: str,
    drafted: Draft,
    stage: Stage | None,
    gates: tuple[str, ...],
    before: Mapping[str, Step],
    checked: CheckedRecipe,
    request: CompileRequest,
) -> Step:
    thing, _, name = node.partition(":")
    container = (stage.container if stage else None) or checked.resolved.recipe.container
    image = container.image if container else None
    params = drafted.params.dump()
    values = _key_values(drafted, params, image, before, request)
    parts = key_parts(values)
    section = {"model": "models", "dataset": "datasets"}.get(thing, "stages")
    return Step(
        id=step_id(thing, name),
        kind=drafted.kind,
        entry=request.catalog.entry(*drafted.entry),
        params=params,
        place=source_location(checked, (section, name)),
        places=declaration_places(name, stage, params, checked),
        key=key_from_parts(parts),
        key_parts=parts,
        key_values=values,
        pinned=drafted.pinned and all(before[i.step].pinned for i in drafted.inputs.values()),
        inputs=drafted.inputs,
        files=drafted.files,
        secrets=drafted.secrets,
        resources=_resources(drafted, stage),
        launch=drafted.launch,
        image=image,
        attempts=stage.retry.attempts if stage else 1,
        wait_seconds=stage.retry.wait_seconds if stage else 0.0,
        timeout_minutes=stage.timeout_minutes if stage else None,
        gates=gates if thing == "stage" else (),
        expect=drafted.expect,
        estimate=with_disk_estimate(node, drafted, checked),
    )


def _resources(drafted: Draft, stage: Stage | None) -> Resources:
    """The resources of the step, with the stage's `memory_gb` if set."""
    if stage is None or stage.memory_gb is None:
        return drafted.resources
    return drafted.resources.model_copy(update={"memory_gb": stage.memory_gb})


def _key_values(
    drafted: Draft,
    params: Mapping[str, Any],
    image: str | None,
    before: Mapping[str, Step],
    request: CompileRequest,
) -> dict[str, Any]:
    """Everything that the result depends on, by name. Cache misses are explained with these values."""
    extension = request.catalog.find(*drafted.entry)
    assert extension is not None, f"the catalog has {drafted.entry}"
    used = {f"{type(e).__name__.lower()}:{e.name}": e for e in (extension, *drafted.used)}
    known = [name for name in drafted.stack if name in request.stack]
    stack = sorted({*known, *(name for e in used.values() for name in e.stack)})
    environment = {"image": image} if image else {name: request.stack.get(name) for name in stack}
    values: dict[str, Any] = {
        "kind": drafted.kind,
        "environment": environment,
        "variables": key_variables(),
        "extensions": {name: e.version for name, e in used.items()},
    }
    launch_parts = drafted.launch_parts(drafted.launch)
    for name, value in _flatten_params(params, _neutral_params(drafted, launch_parts)):
        values[f"params.{name}"] = value
    if PROCESSES in launch_parts:
        values["launch.processes"] = drafted.launch.processes
    for role, given in drafted.inputs.items():
        values[f"input.{role}"] = given.key_value(before[given.step].key)
    for role, file in drafted.files.items():
        values[f"file.{role}"] = file.sha256
    return values


def _neutral_params(drafted: Draft, launch_parts: frozenset[str]) -> frozenset[str]:
    """The parameters that are left out of the key. The micro-batch size of a training is one, by default."""
    if drafted.kind != "train" or MICRO_BATCH_SIZE in launch_parts:
        return drafted.neutral
    return drafted.neutral | {f"params.{MICRO_BATCH_SIZE}"}


def _flatten_params(params: Mapping[str, Any], neutral: frozenset[str]) -> list[tuple[str, Any]]:
    """Parameters by dotted name, so that changes can be reported per parameter."""
    found: list[tuple[str, Any]] = []
    for name, value in params.items():
        if name in neutral:
            continue
        if isinstance(value, dict) and name in ("params", "sampling"):
            inner: dict[str, Any] = value
            found += [(f"{name}.{k}", v) for k, v in inner.items() if f"{name}.{k}" not in neutral]
        else:
            found.append((name, value))
    return found
