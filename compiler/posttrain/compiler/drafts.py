"""What each thing of a recipe becomes in the plan: entry, parameters, inputs and meaning."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from posttrain.compiler.check import Checked
from posttrain.compiler.folders import is_folder
from posttrain.compiler.names import Ref
from posttrain.compiler.placement.placed import Placed
from posttrain.compiler.rewards.graph import Graph
from posttrain.compiler.seeds import seed_for
from posttrain.compiler.source import Request
from posttrain.spec.extension import Extension, Kind, Params
from posttrain.spec.plan import Input, Launch, Resources, UserFile
from posttrain.spec.recipe import Declaration
from posttrain.spec.stages import Evaluate, Export, Gate, Generate, Sampling, Script, Train

Json = Any


@dataclass(frozen=True, kw_only=True)
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
    refs = {role: ref for (of, role), ref in checked.named.refs.items() if of == owner}
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
        neutral=frozenset(f"params.{key}" for key in training.method.neutral),
        used=(training.method,),
        inputs=_inputs(name, checked, "model", "data", "reference"),
        expect={"steps": schedule.steps} if schedule else {},
    )
    return _scoring(drafted, training.graph)


def _evaluate(name: str, stage: Evaluate, checked: Checked) -> Draft:
    found = checked.evals[name]
    metrics = {key: {"kind": metric.kind, "node": metric.node} for key, metric in found.metrics.items()}
    drafted = Draft(
        kind="eval",
        resources=_computing(checked),
        entry=("verb", "eval"),
        params={
            "metrics": metrics,
            "sampling": _sampling(stage.sampling),
            "prompts": stage.prompts,
            # Evals of the same rows draw alike, so that they can be compared item by item.
            "seed": seed_for(checked.named.recipe.seed, f"eval:{stage.data}"),
        },
        neutral=frozenset({"sampling.batch"} if stage.sampling.temperature == 0 else ()),
        inputs=_inputs(name, checked, "model", "data"),
    )
    return _scoring(drafted, found.graph)


def _sampling(sampling: Sampling) -> Json:
    return _dumped(sampling)


def _gate(name: str, stage: Gate, checked: Checked) -> Draft:
    gate = checked.gates[name]
    return Draft(
        kind="gate",
        entry=("verb", "gate"),
        params={
            "conditions": list(gate.conditions),
            "on_fail": stage.on_fail,
            "on_inconclusive": stage.on_inconclusive,
            "seed": _seed(name, checked),
        },
        neutral=frozenset({"on_fail", "on_inconclusive"}),
        inputs={f"eval:{name}": Input(step=name) for name in gate.evals},
    )


def _export(name: str, stage: Export, checked: Checked) -> Draft:
    return Draft(
        kind="export",
        entry=("verb", "export"),
        params={"merge": stage.merge},
        inputs=_inputs(name, checked, "model"),
    )


def _generate(name: str, stage: Generate, checked: Checked) -> Draft:
    graph = checked.graphs[stage.reward] if stage.reward else None
    drafted = Draft(
        kind="generate",
        resources=_computing(checked),
        entry=("verb", "generate"),
        params={
            "reward": None,
            "sampling": _sampling(stage.sampling),
            "prompts": stage.prompts,
            "keep": stage.keep,
            "seed": _seed(name, checked),
        },
        inputs=_inputs(name, checked, "model", "data"),
    )
    return _scoring(drafted, graph)


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
