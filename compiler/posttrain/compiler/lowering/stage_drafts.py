"""What each stage becomes in the plan, by its verb."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from posttrain.compiler.check import Checked
from posttrain.compiler.checks.during import rounded
from posttrain.compiler.lowering.drafting import (
    Draft,
    Json,
    computing,
    dumped,
    input_of,
    inputs_of,
    scorers,
    seed_of,
    with_models,
    with_reward,
    with_world,
)
from posttrain.compiler.resolution.lineage import trained_wide
from posttrain.compiler.seeds import seed_for
from posttrain.compiler.stages.branches import lowered
from posttrain.spec.asking import Sampling
from posttrain.spec.declared import written
from posttrain.spec.making import Export, Generate, Script
from posttrain.spec.measuring import Benchmark, Evaluate, Gate
from posttrain.spec.models import Adapter
from posttrain.spec.plan import Input, Resources
from posttrain.spec.training import Train


def _train(name: str, stage: Train, checked: Checked) -> Draft:
    training = checked.trainings[name]
    schedule = training.schedule
    drafted = Draft(
        kind="train",
        resources=computing(checked),
        entry=("method", stage.train),
        params={
            "method": stage.train,
            "params": dumped(training.params),
            "trl": stage.trl,
            "prompts": stage.prompts,
            "adapter": _adapter(checked.lines[f"stage:{name}"].adapter),
            "reward": None,
            "seed": seed_of(name, checked),
            **_width(name, checked),
        },
        neutral=frozenset(f"params.{key}" for key in training.method.neutral(training.params)),
        used=(training.method,),
        inputs=inputs_of(name, checked, "model", "data", "reference", *scorers(name, checked)),
        expect={"steps": schedule.steps} if schedule else {},
    )
    drafted = with_world(with_reward(drafted, training.graph), checked.worlds.get(stage.environment or ""))
    return _measuring(drafted, name, stage, checked)


def _adapter(declared: Adapter | None) -> Json:
    """An adapter without what it does not ask for: the keys of those that are there stay as they were."""
    made = dumped(declared)
    return {key: value for key, value in made.items() if key != "rank_stable" or value} if made else made


def _width(name: str, checked: Checked) -> dict[str, Any]:
    """What whole weights are trained in, where that may not be what they are stored in."""
    line, models = checked.lines[f"stage:{name}"], checked.named.recipe.models
    whole = line.adapter is None or line.adapter.kind == "full"
    wide = whole and trained_wide(models[line.origin] if line.origin else None)
    return {"weights": "float32"} if wide else {}


def _measuring(drafted: Draft, name: str, stage: Train, checked: Checked) -> Draft:
    """The draft of a training stage with the evals that it makes on the way, each under its name."""
    during, boundary = stage.evaluate, checked.trainings[name].boundary
    if during is None:
        return drafted
    stages, refs = checked.named.recipe.stages, checked.named.refs
    evals = {each: DRAFTS[Evaluate](each, stages[each], checked) for each in during.evals}
    made = {**dumped(during), "every": rounded(during.every, boundary or 1)}
    made["evals"] = {each: one.params for each, one in evals.items()}
    read = {
        f"{each}.{role}": input_of(refs[f"stage:{name}", f"{each}.{role}"])
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
        resources=computing(checked),
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
        inputs=inputs_of(name, checked, "data", *scorers(name, checked)),
        pinned=found.pinned,
    )
    drafted = with_world(drafted, checked.worlds.get(stage.environment or ""))
    return with_models(name, with_reward(drafted, found.graph), found.asking, checked)


def _benchmark(name: str, stage: Benchmark, checked: Checked) -> Draft:
    found = checked.benchmarks[name]
    drafted = with_models(
        name,
        Draft(
            kind="eval",
            resources=replace(computing(checked), network=found.network),
            entry=("verb", "benchmark"),
            params={},
            neutral=frozenset({"batch"}),
            pinned=found.pinned,
        ),
        found.asking,
        checked,
    )
    return replace(
        drafted,
        params={
            **drafted.params,
            "several": not isinstance(stage.benchmark, str),
            "tasks": [{"name": task.name, "file": task.file} for task in found.tasks],
            "groups": found.groups,
            "metrics": {key: metric.plan() for key, metric in found.measured.items()},
            "shots": stage.shots,
            "limit": stage.limit,
            "batch": stage.batch,
            "revisions": stage.revisions,
            "unsafe_code": stage.unsafe_code,
            # What lm-eval draws it draws by seeds of its own: this one is for intervals.
            "seed": seed_for(checked.named.recipe.seed, "benchmark"),
        },
    )


def _sampling(sampling: Sampling) -> Json:
    return dumped(sampling)


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
            "seed": seed_of(name, checked),
        },
        neutral=frozenset({"on_fail", "on_inconclusive"}),
        inputs={f"eval:{name}": Input(step=name) for name in gate.evals},
    )


def _export(name: str, stage: Export, checked: Checked) -> Draft:
    drafted = Draft(
        kind="export",
        entry=("verb", "export"),
        params={"merge": stage.merge},
        inputs=inputs_of(name, checked, "model"),
    )
    push = stage.push
    if push is None:
        return drafted
    return replace(
        drafted,
        params={
            **drafted.params,
            "push": written(push, without=("token",)),
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
        resources=computing(checked),
        entry=("verb", "generate"),
        params={
            "reward": None,
            "sampling": _sampling(stage.sampling),
            **found.plan(),
            "seed": seed_of(name, checked),
        },
        neutral=frozenset({"may_lose"}),
        inputs=inputs_of(name, checked, "data", *scorers(name, checked)),
    )
    return with_models(name, with_reward(drafted, found.graph), found.asking, checked)


def _script(name: str, stage: Script, checked: Checked) -> Draft:
    return Draft(
        kind="script",
        entry=("verb", "script"),
        params={"command": stage.script, "seed": seed_of(name, checked)},
        inputs=inputs_of(name, checked, *stage.inputs),
        files=checked.files.get(name, {}),
        resources=Resources(network=stage.network),
    )


DRAFTS: dict[type, Callable[[str, Any, Checked], Draft]] = {
    Train: _train,
    Evaluate: _evaluate,
    Benchmark: _benchmark,
    Gate: _gate,
    Export: _export,
    Generate: _generate,
    Script: _script,
}
