"""Builds the drafts of stages, by verb."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, cast

from posttrain.compiler.checks.inloop_eval import round_up_to_boundary
from posttrain.compiler.lowering.draft_parts import (
    Draft,
    compute_resources,
    endpoint_access,
    reward_model_roles,
    stage_seed,
    step_input,
    step_inputs,
    with_environment,
    with_inference,
    with_reward,
)
from posttrain.compiler.lowering.launch_key import TrainingOnLaunch, launch_key_parts
from posttrain.compiler.resolution.lineage import trains_in_float32
from posttrain.compiler.seeds import seed_for
from posttrain.compiler.semantic_checks import CheckedRecipe
from posttrain.compiler.stages.branches import lower_branch
from posttrain.spec.artifact_stages import Export, Generate, Script
from posttrain.spec.declaration_fields import dump_declaration
from posttrain.spec.eval_stages import Benchmark, Evaluate, Gate
from posttrain.spec.inference import Sampling
from posttrain.spec.plan import Launch, Resources, StepInput
from posttrain.spec.process_variables import HUB_CREDENTIAL
from posttrain.spec.step_params.artifact_params import (
    ExportStepParams,
    GenerateStepParams,
    HubAccess,
    PushTarget,
    ScriptStepParams,
)
from posttrain.spec.step_params.eval_params import (
    BenchmarkStepParams,
    BenchmarkTask,
    EvalStepParams,
    GateStepParams,
)
from posttrain.spec.step_params.generation_params import SamplingOptions
from posttrain.spec.step_params.train_params import AdapterOptions, InLoopEvalOptions, TrainStepParams
from posttrain.spec.train_stage import InLoopEval, Train


def _train(name: str, stage: Train, checked: CheckedRecipe) -> Draft:
    training = checked.trainings[name]
    schedule, graph = training.schedule, training.graph
    environment = checked.environments.get(stage.environment or "")
    evals = _inloop_drafts(stage.evaluate, checked)
    adapter = checked.lineages[f"stage:{name}"].adapter
    drafted = Draft(
        kind="train",
        resources=compute_resources(checked),
        entry=("method", stage.train),
        params=TrainStepParams(
            method=stage.train,
            params=dump_declaration(training.params),
            trl=stage.trl,
            prompts=stage.prompts,
            adapter=AdapterOptions(**dict(adapter)) if adapter else None,
            reward=graph.step_params() if graph else None,
            access=graph.endpoint_access() if graph else None,
            environment=environment.step_params() if environment else None,
            hosting=environment.neutral_params() if environment else None,
            evaluate=_inloop_options(stage.evaluate, evals, training.boundary),
            seed=stage_seed(name, checked),
            weights_dtype=_weights_dtype(name, checked),
        ),
        neutral=frozenset(f"params.{each}" for each in training.method.neutral(training.params)),
        launch_parts=lambda launch: launch_key_parts(_on_launch(name, launch, checked)),
        used=(training.method,),
        inputs=step_inputs(name, checked, "model", "data", "reference", *reward_model_roles(name, checked)),
        expect={"steps": schedule.steps} if schedule else {},
    )
    return _with_inloop_evals(
        with_environment(with_reward(drafted, graph), environment), name, evals, checked
    )


def _on_launch(name: str, launch: Launch, checked: CheckedRecipe) -> TrainingOnLaunch:
    line = checked.lineages[f"stage:{name}"]
    origin = checked.resolved.recipe.models[line.origin] if line.origin else None
    return TrainingOnLaunch(
        training=checked.trainings[name],
        adapter=line.adapter,
        shape=checked.shapes.get(line.origin) if line.origin else None,
        from_scratch=origin is not None and origin.init is not None,
        launch=launch,
    )


def _weights_dtype(name: str, checked: CheckedRecipe) -> Literal["float32"] | None:
    """The data type for the training of all weights, if it can differ from the stored type."""
    line, models = checked.lineages[f"stage:{name}"], checked.resolved.recipe.models
    whole = line.adapter is None or line.adapter.type == "full"
    wide = whole and trains_in_float32(models[line.origin] if line.origin else None)
    return "float32" if wide else None


def _inloop_drafts(during: InLoopEval | None, checked: CheckedRecipe) -> dict[str, Draft]:
    """The drafts of the in-loop evals of a training stage, by name."""
    stages = checked.resolved.recipe.stages
    names = during.evals if during else ()
    return {each: STAGE_DRAFTERS[Evaluate](each, stages[each], checked) for each in names}


def _inloop_options(
    during: InLoopEval | None, evals: Mapping[str, Draft], boundary: int | None
) -> InLoopEvalOptions | None:
    if during is None:
        return None
    return InLoopEvalOptions(
        eval_steps=round_up_to_boundary(during.eval_steps, boundary or 1),
        evals={each: cast(EvalStepParams, one.params) for each, one in evals.items()},
        metric_for_best_model=during.metric_for_best_model,
        greater_is_better=during.greater_is_better,
        early_stopping_threshold=during.early_stopping_threshold,
        early_stopping_patience=during.early_stopping_patience,
        keep=during.keep,
    )


def _with_inloop_evals(
    drafted: Draft, name: str, evals: Mapping[str, Draft], checked: CheckedRecipe
) -> Draft:
    """The draft of a training stage with the inputs and files of its in-loop evals."""
    if not evals:
        return drafted
    refs = checked.resolved.refs
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
        used=(*drafted.used, *(op for one in evals.values() for op in one.used)),
        inputs={**drafted.inputs, **read},
        files={**drafted.files, **files},
        secrets=tuple(sorted({*drafted.secrets, *(s for one in evals.values() for s in one.secrets)})),
        resources=drafted.resources.model_copy(update={"network": network}),
    )


def _evaluate(name: str, stage: Evaluate, checked: CheckedRecipe) -> Draft:
    found = checked.evals[name]
    inference, environment = found.inference, checked.environments.get(stage.environment or "")
    drafted = Draft(
        kind="eval",
        resources=compute_resources(checked),
        entry=("verb", "eval"),
        params=EvalStepParams(
            prompts=inference.prompt_config.prompts,
            few_shot=inference.prompt_config.shots,
            models=inference.models,
            access=endpoint_access(found.graph, inference),
            reward=found.graph.step_params(),
            environment=environment.step_params() if environment else None,
            hosting=environment.neutral_params() if environment else None,
            metrics={key: metric.step_params() for key, metric in found.declared_metrics.items()},
            multiple_models=not isinstance(stage.eval, str),
            group_by=stage.group_by,
            sampling=_sampling(stage.sampling),
            # Evals of the same rows share a seed, so that they can be compared item by item.
            seed=_sampling_seed(stage.sampling, seed_for(checked.resolved.recipe.seed, f"eval:{stage.data}")),
        ),
        neutral=frozenset({"sampling.batch_size"} if stage.sampling.temperature == 0 else ()),
        inputs=step_inputs(name, checked, "data", *reward_model_roles(name, checked)),
        pinned=found.pinned,
    )
    drafted = with_environment(drafted, environment)
    return with_inference(name, with_reward(drafted, found.graph), inference, checked)


def _benchmark(name: str, stage: Benchmark, checked: CheckedRecipe) -> Draft:
    found = checked.benchmarks[name]
    inference = found.inference
    drafted = Draft(
        kind="eval",
        resources=compute_resources(checked).model_copy(update={"network": found.needs_network}),
        entry=("verb", "benchmark"),
        params=BenchmarkStepParams(
            prompts=inference.prompt_config.prompts,
            few_shot=inference.prompt_config.shots,
            models=inference.models,
            access=inference.endpoint_access(),
            multiple_models=not isinstance(stage.benchmark, str),
            tasks=tuple(BenchmarkTask(name=task.name, file=task.file) for task in found.tasks),
            groups=found.groups,
            metrics={key: metric.step_params() for key, metric in found.task_metrics.items()},
            num_fewshot=stage.num_fewshot,
            limit=stage.limit,
            batch_size=stage.batch_size,
            revisions=stage.revisions,
            confirm_run_unsafe_code=stage.confirm_run_unsafe_code,
            # For confidence intervals only: lm-eval samples with its own seeds.
            seed=seed_for(checked.resolved.recipe.seed, "benchmark"),
        ),
        neutral=frozenset({"batch_size"}),
        secrets=(HUB_CREDENTIAL,) if found.reads_hub else (),
        pinned=found.pinned,
    )
    return with_inference(name, drafted, inference, checked)


def _sampling(sampling: Sampling) -> SamplingOptions:
    """`sampling` without its seed, which is a parameter of the step."""
    return SamplingOptions(**{key: value for key, value in sampling if key != "seed"})


def _sampling_seed(sampling: Sampling, derived: int) -> int:
    return derived if sampling.seed is None else sampling.seed


def _gate(name: str, stage: Gate, checked: CheckedRecipe) -> Draft:
    gate = checked.gates[name]
    return Draft(
        kind="gate",
        entry=("verb", "gate"),
        params=GateStepParams(
            conditions=gate.conditions,
            correction=stage.correction,
            on_fail=lower_branch(stage.on_fail, checked.resolved),
            on_inconclusive=lower_branch(stage.on_inconclusive, checked.resolved),
            seed=stage_seed(name, checked),
        ),
        neutral=frozenset({"on_fail", "on_inconclusive"}),
        inputs={f"eval:{name}": StepInput(step=name) for name in gate.evals},
    )


def _export(name: str, stage: Export, checked: CheckedRecipe) -> Draft:
    push, inputs = stage.push, step_inputs(name, checked, "model")
    if push is None:
        params = ExportStepParams(merge=stage.merge)
        return Draft(kind="export", entry=("verb", "export"), params=params, inputs=inputs)
    return Draft(
        kind="export",
        entry=("verb", "export"),
        params=ExportStepParams(
            merge=stage.merge,
            push=PushTarget(hub=push.hub, folder=push.folder, private=push.private, revision=push.revision),
            access=HubAccess(token=push.token.env),
        ),
        neutral=frozenset({"access"}),
        inputs=inputs,
        secrets=(push.token.env,) if push.hub else (),
        resources=Resources(network=push.hub is not None),
    )


def _generate(name: str, stage: Generate, checked: CheckedRecipe) -> Draft:
    found = checked.generations[name]
    graph, inference = found.graph, found.inference
    drafted = Draft(
        kind="generate",
        resources=compute_resources(checked),
        entry=("verb", "generate"),
        params=GenerateStepParams(
            prompts=inference.prompt_config.prompts,
            few_shot=inference.prompt_config.shots,
            models=inference.models,
            access=endpoint_access(graph, inference),
            reward=graph.step_params() if graph else None,
            sampling=_sampling(stage.sampling),
            keep=stage.keep,
            max_failed_ratio=stage.max_failed_ratio,
            dialogue=found.dialogue_params(),
            seed=_sampling_seed(stage.sampling, stage_seed(name, checked)),
        ),
        neutral=frozenset({"max_failed_ratio"}),
        inputs=step_inputs(name, checked, "data", *reward_model_roles(name, checked)),
    )
    return with_inference(name, with_reward(drafted, graph), inference, checked)


def _script(name: str, stage: Script, checked: CheckedRecipe) -> Draft:
    return Draft(
        kind="script",
        entry=("verb", "script"),
        params=ScriptStepParams(command=stage.script, seed=stage_seed(name, checked)),
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
