"""Builds the drafts of stages, by verb."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from posttrain.compiler.checks.inloop_eval import round_up_to_boundary
from posttrain.compiler.lowering.draft_parts import (
    Draft,
    Json,
    compute_resources,
    dump_optional,
    reward_model_roles,
    stage_seed,
    step_input,
    step_inputs,
    with_environment,
    with_inference,
    with_reward,
)
from posttrain.compiler.resolution.lineage import trains_in_float32
from posttrain.compiler.seeds import seed_for
from posttrain.compiler.semantic_checks import CheckedRecipe
from posttrain.compiler.stages.branches import lower_branch
from posttrain.compiler.stages.inference import sampling_params
from posttrain.spec.artifact_stages import Export, Generate, Script
from posttrain.spec.declaration_fields import dump_declaration
from posttrain.spec.eval_stages import Benchmark, Evaluate, Gate
from posttrain.spec.inference import Sampling
from posttrain.spec.model_declaration import Adapter
from posttrain.spec.plan import Resources, StepInput
from posttrain.spec.process_variables import HUB_CREDENTIAL
from posttrain.spec.train_stage import Train


def _train(name: str, stage: Train, checked: CheckedRecipe) -> Draft:
    training = checked.trainings[name]
    schedule = training.schedule
    adapter = checked.lineages[f"stage:{name}"].adapter
    drafted = Draft(
        kind="train",
        resources=compute_resources(checked),
        entry=("method", stage.train),
        params={
            "method": stage.train,
            "params": dump_optional(training.params),
            "trl": stage.trl,
            "prompts": stage.prompts,
            "adapter": _adapter_params(adapter),
            "reward": None,
            "seed": stage_seed(name, checked),
            **_weights_dtype(name, checked),
        },
        neutral=_neutral_params(training.method.neutral(training.params), adapter),
        used=(training.method,),
        inputs=step_inputs(name, checked, "model", "data", "reference", *reward_model_roles(name, checked)),
        expect={"steps": schedule.steps} if schedule else {},
    )
    drafted = with_environment(
        with_reward(drafted, training.graph), checked.environments.get(stage.environment or "")
    )
    return _with_inloop_evals(drafted, name, stage, checked)


def _neutral_params(names: tuple[str, ...], adapter: Adapter | None) -> frozenset[str]:
    """The parameters of a method that are left out of the key.

    The micro-batch size is part of the key if the adapter has dropout: each micro-batch draws its own mask.
    """
    dropout = adapter is not None and adapter.lora_dropout > 0
    return frozenset(f"params.{name}" for name in names if not (dropout and name == "micro_batch_size"))


def _adapter_params(adapter: Adapter | None) -> Json:
    """The parameters of an adapter. `use_rslora: false` is omitted, so that existing keys do not change."""
    params = dump_optional(adapter)
    return {key: value for key, value in params.items() if key != "use_rslora" or value} if params else params


def _weights_dtype(name: str, checked: CheckedRecipe) -> dict[str, Any]:
    """The data type for the training of all weights, if it can differ from the stored type."""
    line, models = checked.lineages[f"stage:{name}"], checked.resolved.recipe.models
    whole = line.adapter is None or line.adapter.type == "full"
    wide = whole and trains_in_float32(models[line.origin] if line.origin else None)
    return {"weights_dtype": "float32"} if wide else {}


def _with_inloop_evals(drafted: Draft, name: str, stage: Train, checked: CheckedRecipe) -> Draft:
    """The draft of a training stage with its in-loop evals, by name."""
    during, boundary = stage.evaluate, checked.trainings[name].boundary
    if during is None:
        return drafted
    stages, refs = checked.resolved.recipe.stages, checked.resolved.refs
    evals = {each: STAGE_DRAFTERS[Evaluate](each, stages[each], checked) for each in during.evals}
    params = {**dump_optional(during), "eval_steps": round_up_to_boundary(during.eval_steps, boundary or 1)}
    params["evals"] = {each: one.params for each, one in evals.items()}
    read = {
        f"{each}.{role}": step_input(refs[f"stage:{name}", f"{each}.{role}"])
        for each, one in evals.items()
        for role in one.inputs
        if (f"stage:{name}", f"{each}.{role}") in refs
    }
    files = {f"{each}.{role}": file for each, one in evals.items() for role, file in one.files.items()}
    network = drafted.resources.network or any(one.resources.network for one in evals.values())
    return replace(
        drafted,
        params={**drafted.params, "evaluate": params},
        used=(*drafted.used, *(op for one in evals.values() for op in one.used)),
        inputs={**drafted.inputs, **read},
        files={**drafted.files, **files},
        secrets=tuple(sorted({*drafted.secrets, *(s for one in evals.values() for s in one.secrets)})),
        resources=drafted.resources.model_copy(update={"network": network}),
    )


def _evaluate(name: str, stage: Evaluate, checked: CheckedRecipe) -> Draft:
    found = checked.evals[name]
    drafted = Draft(
        kind="eval",
        resources=compute_resources(checked),
        entry=("verb", "eval"),
        params={
            "metrics": {key: metric.step_params() for key, metric in found.declared_metrics.items()},
            "multiple_models": not isinstance(stage.eval, str),
            "group_by": stage.group_by,
            "sampling": sampling_params(stage.sampling),
            # Evals of the same rows share a seed, so that they can be compared item by item.
            "seed": _sampling_seed(
                stage.sampling, seed_for(checked.resolved.recipe.seed, f"eval:{stage.data}")
            ),
        },
        neutral=frozenset({"sampling.batch_size"} if stage.sampling.is_greedy else ()),
        inputs=step_inputs(name, checked, "data", *reward_model_roles(name, checked)),
        pinned=found.pinned,
    )
    drafted = with_environment(drafted, checked.environments.get(stage.environment or ""))
    return with_inference(name, with_reward(drafted, found.graph), found.inference, checked)


def _benchmark(name: str, stage: Benchmark, checked: CheckedRecipe) -> Draft:
    found = checked.benchmarks[name]
    drafted = with_inference(
        name,
        Draft(
            kind="eval",
            resources=compute_resources(checked).model_copy(update={"network": found.needs_network}),
            entry=("verb", "benchmark"),
            params={},
            neutral=frozenset({"batch_size"}),
            secrets=(HUB_CREDENTIAL,) if found.reads_hub else (),
            pinned=found.pinned,
        ),
        found.inference,
        checked,
    )
    return replace(
        drafted,
        params={
            **drafted.params,
            "multiple_models": not isinstance(stage.benchmark, str),
            "tasks": [{"name": task.name, "file": task.file} for task in found.tasks],
            "groups": found.groups,
            "metrics": {key: metric.step_params() for key, metric in found.task_metrics.items()},
            "num_fewshot": stage.num_fewshot,
            "limit": stage.limit,
            "batch_size": stage.batch_size,
            "revisions": stage.revisions,
            "confirm_run_unsafe_code": stage.confirm_run_unsafe_code,
            # For confidence intervals only: lm-eval samples with its own seeds.
            "seed": seed_for(checked.resolved.recipe.seed, "benchmark"),
        },
    )


def _sampling_seed(sampling: Sampling, derived: int) -> int:
    return derived if sampling.seed is None else sampling.seed


def _gate(name: str, stage: Gate, checked: CheckedRecipe) -> Draft:
    gate = checked.gates[name]
    return Draft(
        kind="gate",
        entry=("verb", "gate"),
        params={
            "conditions": list(gate.conditions),
            "correction": stage.correction,
            "on_fail": lower_branch(stage.on_fail, checked.resolved),
            "on_inconclusive": lower_branch(stage.on_inconclusive, checked.resolved),
            "seed": stage_seed(name, checked),
        },
        neutral=frozenset({"on_fail", "on_inconclusive"}),
        inputs={f"eval:{name}": StepInput(step=name) for name in gate.evals},
    )


def _export(name: str, stage: Export, checked: CheckedRecipe) -> Draft:
    drafted = Draft(
        kind="export",
        entry=("verb", "export"),
        params={"merge": stage.merge},
        inputs=step_inputs(name, checked, "model"),
    )
    push = stage.push
    if push is None:
        return drafted
    return replace(
        drafted,
        params={
            **drafted.params,
            "push": dump_declaration(push, without=("token",)),
            "access": {"token": push.token.env},
        },
        neutral=frozenset({"access"}),
        secrets=(push.token.env,) if push.hub else (),
        resources=Resources(network=push.hub is not None),
    )


def _generate(name: str, stage: Generate, checked: CheckedRecipe) -> Draft:
    found = checked.generations[name]
    drafted = Draft(
        kind="generate",
        resources=compute_resources(checked),
        entry=("verb", "generate"),
        params={
            "reward": None,
            "sampling": sampling_params(stage.sampling),
            **found.step_params(),
            "seed": _sampling_seed(stage.sampling, stage_seed(name, checked)),
        },
        neutral=frozenset({"max_failed_ratio"}),
        inputs=step_inputs(name, checked, "data", *reward_model_roles(name, checked)),
    )
    return with_inference(name, with_reward(drafted, found.graph), found.inference, checked)


def _script(name: str, stage: Script, checked: CheckedRecipe) -> Draft:
    return Draft(
        kind="script",
        entry=("verb", "script"),
        params={"command": stage.script, "seed": stage_seed(name, checked)},
        inputs=step_inputs(name, checked, *stage.inputs),
        files=checked.files.get(name, {}),
        resources=Resources(network=stage.network),
    )


STAGE_DRAFTERS: dict[type, Callable[[str, Any, CheckedRecipe], Draft]] = {
    Train: _train,
    Evaluate: _evaluate,
    Benchmark: _benchmark,
    Gate: _gate,
    Export: _export,
    Generate: _generate,
    Script: _script,
}
