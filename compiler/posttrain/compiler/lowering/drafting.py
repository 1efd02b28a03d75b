"""A draft is a step before it has a key; and the pieces that drafts of all kinds are made of."""

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

from posttrain.compiler.check import Checked
from posttrain.compiler.environments.world import World
from posttrain.compiler.resolution.names import Ref
from posttrain.compiler.rewards.graph import Graph
from posttrain.compiler.seeds import seed_for
from posttrain.compiler.stages.asking import Asking
from posttrain.spec.declared import Declaration, written
from posttrain.spec.extension import Extension, Kind
from posttrain.spec.plan import Input, Launch, Resources, UserFile
from posttrain.spec.record import record

Json = Any


@record(kw_only=True)
class Draft:
    """A step before it has a key."""

    kind: str
    entry: tuple[Kind, str]
    params: Mapping[str, Json]
    # Parameters that change speed, memory or reports, but not the result.
    neutral: frozenset[str] = frozenset()
    used: tuple[Extension, ...] = ()
    inputs: Mapping[str, Input] = field(default_factory=dict[str, Input])
    files: Mapping[str, UserFile] = field(default_factory=dict[str, UserFile])
    expect: Mapping[str, Json] = field(default_factory=dict[str, Json])
    # Environment variables whose values the step may see.
    secrets: tuple[str, ...] = ()
    # False when what goes in is not pinned: the step's product is then never taken from the store.
    pinned: bool = True
    resources: Resources = field(default_factory=Resources)
    launch: Launch = field(default_factory=Launch)
    estimate: Mapping[str, Json] | None = None


def step_id(thing: str, name: str) -> str:
    return {"model": f"models.{name}", "dataset": f"datasets.{name}"}.get(thing, name)


def dumped(value: Declaration | None) -> Json:
    return None if value is None else written(value)


def input_of(ref: Ref) -> Input:
    return Input(step=step_id(ref.thing, ref.name), part=ref.part)


def inputs_of(name: str, checked: Checked, *roles: str) -> dict[str, Input]:
    refs = checked.named.refs
    return {role: input_of(refs[f"stage:{name}", role]) for role in roles if (f"stage:{name}", role) in refs}


def scorers(name: str, checked: Checked) -> list[str]:
    """The roles of the models that the stage's reward scores with."""
    roles = checked.named.by_owner.get(f"stage:{name}", ())
    return [role for role in roles if role.startswith("reward:")]


def seed_of(name: str, checked: Checked) -> int:
    return seed_for(checked.named.recipe.seed, f"stage:{name}")


def computing(checked: Checked) -> Resources:
    """What a step that computes takes. One core unless the recipe says more: the order of sums, and
    so the last bits of a result, depend on the number of threads."""
    return Resources(cpus=checked.named.recipe.hardware.cpus or 1)


def with_reward(draft: Draft, graph: Graph | None) -> Draft:
    """The draft of a step that scores by this graph: with its files and the endpoints that it asks."""
    if graph is None:
        return draft
    network = draft.resources.network or bool(graph.endpoints)
    return replace(
        draft,
        params={**draft.params, "reward": graph.plan(), "access": graph.access()},
        neutral=draft.neutral | {"access"},
        used=(*draft.used, *graph.ops),
        files={**draft.files, **graph.files},
        secrets=graph.secrets,
        resources=replace(draft.resources, network=network),
    )


def with_world(draft: Draft, world: World | None) -> Draft:
    """The draft of a step whose model acts in an environment."""
    if world is None:
        return draft
    return replace(
        draft,
        params={**draft.params, "environment": world.plan(), "hosting": world.hosting()},
        neutral=draft.neutral | {"hosting"},
        used=(*draft.used, world.kind),
        files={**draft.files, **world.files},
    )


def with_models(name: str, draft: Draft, asking: Asking, checked: Checked) -> Draft:
    """The draft of a step that asks models: with their products, or with the way to their endpoints."""
    shots = ("shots",) if asking.prompting.shots else ()
    access = {**draft.params.get("access", {}), **asking.access()}
    subjects = [subject.plan() for subject in asking.subjects]
    return replace(
        draft,
        params={**draft.params, **asking.prompting.plan(), "subjects": subjects, "access": access},
        neutral=draft.neutral | {"access"},
        used=(*draft.used, *asking.engines),
        inputs={**inputs_of(name, checked, *asking.roles, *shots), **draft.inputs},
        files={**draft.files, **asking.prompting.files},
        secrets=tuple(sorted({*draft.secrets, *asking.secrets})),
        resources=replace(draft.resources, network=draft.resources.network or bool(asking.endpoints)),
    )
