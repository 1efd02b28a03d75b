"""What each thing of a recipe becomes in the plan: entry, parameters, inputs and meaning."""

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any

from posttrain.compiler.check import Checked
from posttrain.compiler.checks.during import rounded
from posttrain.compiler.environments.world import World
from posttrain.compiler.folders import is_folder
from posttrain.compiler.names import Ref
from posttrain.compiler.placement.placed import Placed
from posttrain.compiler.rewards.graph import Graph
from posttrain.compiler.seeds import seed_for
from posttrain.compiler.source import Request
from posttrain.compiler.stages.asking import Asking
from posttrain.compiler.stages.branches import lowered
from posttrain.spec.extension import Extension, Kind, Params
from posttrain.spec.plan import Input, Launch, Resources, UserFile
from posttrain.spec.recipe import Declaration
from posttrain.spec.record import record
from posttrain.spec.stages import Evaluate, Export, Gate, Generate, Sampling, Script, Train

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


def draft(node: str, checked: Checked, request: Request) -> Draft:
    thing, _, name = node.partition(":")
    match thing:
        case "model":
            return _model(name, checked)
        case "dataset":
            return _dataset(name, checked)
        case _:
            stage = checked.named.recipe.stages[name]
            return _DRAFTS[type(stage)](name, stage, checked)


def _dumped(value: Declaration | Params | None) -> Json:
    return None if value is None else value.model_dump(mode="json", by_alias=True)


def _input(ref: Ref) -> Input:
    return Input(step=step_id(ref.thing, ref.name), part=ref.part)


def _inputs(name: str, checked: Checked, *roles: str) -> dict[str, Input]:
    refs = checked.named.refs
    return {role: _input(refs[f"stage:{name}", role]) for role in roles if (f"stage:{name}", role) in refs}


def _scorers(name: str, checked: Checked) -> list[str]:
    """The roles of the models that the stage's reward scores with."""
    roles = checked.named.by_owner.get(f"stage:{name}", ())
    return [role for role in roles if role.startswith("reward:")]


def _seed(name: str, checked: Checked) -> int:
    return seed_for(checked.named.recipe.seed, f"stage:{name}")


def _computing(checked: Checked) -> Resources:
    """What a step that computes takes. One core unless the recipe says more: the order of sums, and
    so the last bits of a result, depend on the number of threads."""
    return Resources(cpus=checked.named.recipe.hardware.cpus or 1)


def _model(name: str, checked: Checked) -> Draft:
    model = checked.named.recipe.models[name]
    params = _dumped(model)
    adapter = params.pop("adapter")  # belongs to the stages that train the model
    assert adapter is None or isinstance(adapter, dict)
    tokenizer = model.tokenizer
    hub = [(model.from_, model.revision)] if model.from_ and not is_folder(model.from_) else []
    if tokenizer is not None and tokenizer.from_:
        hub.append((tokenizer.from_, tokenizer.revision))
    return Draft(
        kind="model",
        entry=("verb", "model"),
        params={**params, "seed": seed_for(checked.named.recipe.seed, f"model:{name}")},
        files=checked.models[name],
        pinned=all(_is_commit(revision) for _, revision in hub),
        resources=Resources(network=bool(hub)),
    )


def _is_commit(revision: str | None) -> bool:
    return revision is not None and len(revision) == 40 and not set(revision) - set("0123456789abcdef")


def _dataset(name: str, checked: Checked) -> Draft:
    rows = checked.rows[name]
    owner = f"dataset:{name}"
    refs = checked.named.by_owner.get(owner, {})
    inputs = {
        "rows" if role == "from" else f"other:{_written(ref)}": _input(ref) for role, ref in refs.items()
    }
    source = rows.source
    return Draft(
        kind="data",
        entry=("verb", "data"),
        params={
            "source": {"name": source.name, "params": rows.params} if source else None,
            "operations": list(rows.operations),
            "seed": seed_for(checked.named.recipe.seed, owner),
            "columns": rows.table.columns,
        },
        used=rows.used,
        inputs=inputs,
        files=rows.files,
        pinned=rows.pinned,
        resources=Resources(network=source is not None and source.network),
    )


def laid(draft: Draft, placed: Placed) -> Draft:
    """The draft of a stage as it lies on the target."""
    params = dict(draft.params)
    if draft.kind == "train":
        params["params"] = _decided(params["params"], placed)
        if placed.launch.engine == "vllm":
            params["engine"] = "vllm"  # another engine writes other completions
    return replace(
        draft,
        params=params,
        resources=replace(draft.resources, gpus=placed.gpus),
        launch=placed.launch,
        estimate=placed.estimate,
    )


def _decided(params: Mapping[str, Json], placed: Placed) -> dict[str, Json]:
    """The method's parameters, with those that the placement decides."""
    precision = "float32" if params.get("precision") == "auto" else params.get("precision")
    return {**params, "precision": precision, **placed.params}


def _written(ref: Ref) -> str:
    return f"{ref.name}.{ref.part}" if ref.part else ref.name


def _scoring(draft: Draft, graph: Graph | None) -> Draft:
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


def _acting(draft: Draft, world: World | None) -> Draft:
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


def _train(name: str, stage: Train, checked: Checked) -> Draft:
    training = checked.trainings[name]
    schedule = training.schedule
    drafted = Draft(
        kind="train",
        resources=_computing(checked),
        entry=("method", stage.train),
        params={
            "method": stage.train,
            "params": _dumped(training.params),
            "trl": stage.trl,
            "prompts": stage.prompts,
            "adapter": _dumped(checked.lines[f"stage:{name}"].adapter),
            "reward": None,
            "seed": _seed(name, checked),
        },
        neutral=frozenset(f"params.{key}" for key in training.method.neutral(training.params)),
        used=(training.method,),
        inputs=_inputs(name, checked, "model", "data", "reference", *_scorers(name, checked)),
        expect={"steps": schedule.steps} if schedule else {},
    )
    drafted = _acting(_scoring(drafted, training.graph), checked.worlds.get(stage.environment or ""))
    return _measuring(drafted, name, stage, checked)


def _measuring(drafted: Draft, name: str, stage: Train, checked: Checked) -> Draft:
    """The draft of a training stage with the evals that it makes on the way, each under its name."""
    during, boundary = stage.evaluate, checked.trainings[name].boundary
    if during is None:
        return drafted
    stages, refs = checked.named.recipe.stages, checked.named.refs
    evals = {each: _DRAFTS[Evaluate](each, stages[each], checked) for each in during.evals}
    made = {**_dumped(during), "every": rounded(during.every, boundary or 1)}
    made["evals"] = {each: one.params for each, one in evals.items()}
    read = {
        f"{each}.{role}": _input(refs[f"stage:{name}", f"{each}.{role}"])
        for each, one in evals.items()
        for role in one.inputs
        if (f"stage:{name}", f"{each}.{role}") in refs
    }
    files = {f"{each}.{role}": file for each, one in evals.items() for role, file in one.files.items()}
    network = drafted.resources.network or any(one.resources.network for one in evals.values())
    return replace(
        drafted,
        params={**drafted.params, "evaluate": made},
        used=(*drafted.used, *(op for one in evals.values() for op in one.used)),
        inputs={**drafted.inputs, **read},
        files={**drafted.files, **files},
        secrets=tuple(sorted({*drafted.secrets, *(s for one in evals.values() for s in one.secrets)})),
        resources=replace(drafted.resources, network=network),
    )


def _evaluate(name: str, stage: Evaluate, checked: Checked) -> Draft:
    found = checked.evals[name]
    drafted = Draft(
        kind="eval",
        resources=_computing(checked),
        entry=("verb", "eval"),
        params={
            "metrics": {key: metric.plan() for key, metric in found.declared.items()},
            "several": not isinstance(stage.eval, str),
            "by": stage.by,
            "sampling": _sampling(stage.sampling),
            # Evals of the same rows draw alike, so that they can be compared item by item.
            "seed": seed_for(checked.named.recipe.seed, f"eval:{stage.data}"),
        },
        neutral=frozenset({"sampling.batch"} if stage.sampling.temperature == 0 else ()),
        inputs=_inputs(name, checked, "data", *_scorers(name, checked)),
        pinned=found.pinned,
    )
    drafted = _acting(drafted, checked.worlds.get(stage.environment or ""))
    return _asking(name, _scoring(drafted, found.graph), found.asking, checked)


def _asking(name: str, draft: Draft, asking: Asking, checked: Checked) -> Draft:
    """The draft of a step that asks models: with their products, or with the way to their endpoints."""
    shots = ("shots",) if asking.prompting.shots else ()
    access = {**draft.params.get("access", {}), **asking.access()}
    subjects = [subject.plan() for subject in asking.subjects]
    return replace(
        draft,
        params={**draft.params, **asking.prompting.plan(), "subjects": subjects, "access": access},
        neutral=draft.neutral | {"access"},
        used=(*draft.used, *asking.engines),
        inputs={**_inputs(name, checked, *asking.roles, *shots), **draft.inputs},
        files={**draft.files, **asking.prompting.files},
        secrets=tuple(sorted({*draft.secrets, *asking.secrets})),
        resources=replace(draft.resources, network=draft.resources.network or bool(asking.endpoints)),
    )


def _sampling(sampling: Sampling) -> Json:
    return _dumped(sampling)


def _gate(name: str, stage: Gate, checked: Checked) -> Draft:
    gate = checked.gates[name]
    return Draft(
        kind="gate",
        entry=("verb", "gate"),
        params={
            "conditions": list(gate.conditions),
            "correction": stage.correction,
            "on_fail": lowered(stage.on_fail, checked.named),
            "on_inconclusive": lowered(stage.on_inconclusive, checked.named),
            "seed": _seed(name, checked),
        },
        neutral=frozenset({"on_fail", "on_inconclusive"}),
        inputs={f"eval:{name}": Input(step=name) for name in gate.evals},
    )


def _export(name: str, stage: Export, checked: Checked) -> Draft:
    drafted = Draft(
        kind="export",
        entry=("verb", "export"),
        params={"merge": stage.merge},
        inputs=_inputs(name, checked, "model"),
    )
    push = stage.push
    if push is None:
        return drafted
    return replace(
        drafted,
        params={
            **drafted.params,
            "push": push.model_dump(mode="json", exclude={"token"}),
            "access": {"token": push.token.env},
        },
        neutral=frozenset({"access"}),
        secrets=(push.token.env,) if push.hub else (),
        resources=Resources(network=push.hub is not None),
    )


def _generate(name: str, stage: Generate, checked: Checked) -> Draft:
    found = checked.generations[name]
    drafted = Draft(
        kind="generate",
        resources=_computing(checked),
        entry=("verb", "generate"),
        params={
            "reward": None,
            "sampling": _sampling(stage.sampling),
            **found.plan(),
            "seed": _seed(name, checked),
        },
        neutral=frozenset({"may_lose"}),
        inputs=_inputs(name, checked, "data", *_scorers(name, checked)),
    )
    return _asking(name, _scoring(drafted, found.graph), found.asking, checked)


def _script(name: str, stage: Script, checked: Checked) -> Draft:
    return Draft(
        kind="script",
        entry=("verb", "script"),
        params={"command": stage.script, "seed": _seed(name, checked)},
        inputs=_inputs(name, checked, *stage.inputs),
        files=checked.files.get(name, {}),
        resources=Resources(network=stage.network),
    )


_DRAFTS: dict[type, Callable[[str, Any, Checked], Draft]] = {
    Train: _train,
    Evaluate: _evaluate,
    Gate: _gate,
    Export: _export,
    Generate: _generate,
    Script: _script,
}
