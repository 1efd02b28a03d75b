"""Builds the drafts of stages, by verb."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, cast

from posttrain.compiler.checks.inloop_eval import round_up_to_boundary
from posttrain.compiler.facts.trained_parameters import trained_parameter_count
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
    with_streamed_rows,
)
from posttrain.compiler.lowering.launch_key import TrainingOnLaunch, launch_key_parts
from posttrain.compiler.resolution.lineage import Lineage, trains_in_float32
from posttrain.compiler.seeds import seed_for
from posttrain.compiler.semantic_checks import CheckedRecipe
from posttrain.compiler.stages.branches import lower_branch
from posttrain.compiler.stages.held_out import CheckedHeldOut
from posttrain.compiler.stages.inference import sampling_params
from posttrain.compiler.stages.script_stage import script_arguments, script_stack
from posttrain.spec.artifact_stages import Export, Generate, Script, ScriptOutput
from posttrain.spec.canonical_json import Json
from posttrain.spec.declaration_fields import dump_declaration
from posttrain.spec.eval_stages import Benchmark, Evaluate, Gate
from posttrain.spec.inference import Sampling
from posttrain.spec.plan import Launch, Resources, StepInput
from posttrain.spec.process_variables import HUB_CREDENTIAL
from posttrain.spec.step_params.adapter_options import AdapterOptions, adapter_options
from posttrain.spec.step_params.artifact_params import (
    ExportStepParams,
    GenerateStepParams,
    HubAccess,
    OutputOptions,
    PushTarget,
    ScriptStepParams,
)
from posttrain.spec.step_params.eval_params import (
    BenchmarkStepParams,
    BenchmarkTask,
    EvalStepParams,
    GateStepParams,
)
from posttrain.spec.step_params.train_params import (
    HELD_OUT_ROLE,
    InLoopEvalOptions,
    TrainStepParams,
)
from posttrain.spec.train_stage import InLoopEval, Train


def _train(name: str, stage: Train, checked: CheckedRecipe) -> Draft:
    training = checked.trainings[name]
    graph = training.graph
    environment = checked.environments.get(stage.environment or "")
    evals = _inloop_drafts(stage.evaluate, checked)
    drafted = Draft(
        kind="train",
        resources=compute_resources(checked),
        entry=("method", stage.train),
        params=TrainStepParams(
            method=stage.train,
            params=dump_declaration(training.params),
            trl=stage.trl,
            prompts=stage.prompts,
            chat_template_kwargs=stage.chat_template_kwargs,
            adapter=_adapter_options(name, checked),
            reward=graph.step_params() if graph else None,
            access=graph.endpoint_access() if graph else None,
            environment=environment.step_params() if environment else None,
            hosting=environment.neutral_params() if environment else None,
            evaluate=_inloop_options(stage.evaluate, evals, checked.held_out.get(name), training.boundary),
            seed=stage_seed(name, checked),
            weights_dtype=_weights_dtype(name, checked),
        ),
        neutral=frozenset(f"params.{each}" for each in training.method.neutral(training.params)),
        launch_parts=lambda launch: launch_key_parts(_on_launch(name, launch, checked)),
        used=(training.method,),
        inputs=step_inputs(
            name, checked, "model", "data", HELD_OUT_ROLE, "reference", *reward_model_roles(name, checked)
        ),
        expect=_expected_facts(name, checked),
    )
    whole = with_environment(with_reward(drafted, graph), environment)
    return _with_inloop_evals(with_streamed_rows(whole, name, checked), name, evals, checked)


def _adapter_options(name: str, checked: CheckedRecipe) -> AdapterOptions | None:
    line = checked.lineages[f"stage:{name}"]
    return None if line.adapter is None else adapter_options(line.adapter, _added_tokens(line, checked))


def _added_tokens(line: Lineage, checked: CheckedRecipe) -> tuple[str, ...]:
    """The tokens that the tokenizer of the declared model adds."""
    origin = checked.resolved.recipe.models.get(line.origin or "")
    tokenizer = origin.tokenizer if origin is not None else None
    return tokenizer.new_tokens if tokenizer is not None else ()


def _expected_facts(name: str, checked: CheckedRecipe) -> dict[str, Json]:
    """The optimizer steps and the number of trained parameters of a training stage, where they are known."""
    schedule, line = checked.trainings[name].schedule, checked.lineages[f"stage:{name}"]
    shape = checked.shapes.get(line.origin or "")
    found: dict[str, Json] = {} if schedule is None else {"steps": schedule.steps}
    scorer = checked.trainings[name].method.product == "scorer"
    if shape is None:
        return found
    tokens = len(_added_tokens(line, checked))
    shapes = [shape]
    if line.origin in checked.estimated_vocabularies:
        shapes.append(shape._replace(vocab=shape.vocab + 1))
    counts = {
        trained_parameter_count(line.adapter, each, scorer=scorer, added_tokens=tokens) for each in shapes
    }
    # More than one count: it depends on a number of embeddings that is an estimate.
    trained = counts.pop() if len(counts) == 1 else None
    return found if trained is None else {**found, "trained_parameters": trained}


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
    during: InLoopEval | None,
    evals: Mapping[str, Draft],
    held_out: CheckedHeldOut | None,
    boundary: int | None,
) -> InLoopEvalOptions | None:
    if during is None:
        return None
    on_rows = held_out.named_metrics.get(during.metric_for_best_model or "") if held_out else None
    direction = on_rows is None or not on_rows.lower_is_better
    return InLoopEvalOptions(
        eval_steps=round_up_to_boundary(during.eval_steps, boundary or 1),
        evals={each: cast(EvalStepParams, one.params) for each, one in evals.items()},
        metrics=held_out.step_params() if held_out else None,
        metric_for_best_model=during.metric_for_best_model,
        greater_is_better=direction if during.greater_is_better is None else during.greater_is_better,
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
            chat_template_kwargs=stage.chat_template_kwargs,
            few_shot=inference.prompt_config.shots,
            models=inference.models,
            access=endpoint_access(found.graph, inference),
            reward=found.graph.step_params(),
            environment=environment.step_params() if environment else None,
            hosting=environment.neutral_params() if environment else None,
            metrics={key: metric.step_params() for key, metric in found.declared_metrics.items()},
            multiple_models=not isinstance(stage.eval, str),
            group_by=stage.group_by,
            sampling=sampling_params(stage.sampling),
            # Evals of the same rows share a seed, so that they can be compared item by item.
            seed=_sampling_seed(stage.sampling, seed_for(checked.resolved.recipe.seed, f"eval:{stage.data}")),
        ),
        neutral=frozenset({"sampling.batch_size"} if stage.sampling.is_greedy else ()),
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
        params = ExportStepParams(merge=stage.merge, max_shard_size=stage.max_shard_size)
        return Draft(kind="export", entry=("verb", "export"), params=params, inputs=inputs)
    return Draft(
        kind="export",
        entry=("verb", "export"),
        params=ExportStepParams(
            merge=stage.merge,
            max_shard_size=stage.max_shard_size,
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
            chat_template_kwargs=stage.chat_template_kwargs,
            few_shot=inference.prompt_config.shots,
            models=inference.models,
            access=endpoint_access(graph, inference),
            reward=graph.step_params() if graph else None,
            sampling=sampling_params(stage.sampling),
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
    cpus = stage.cpus or checked.resolved.recipe.hardware.cpus or 1
    return Draft(
        kind="script",
        entry=("verb", "script"),
        params=ScriptStepParams(
            command=(*stage.script, *script_arguments(stage.args)),
            seed=stage_seed(name, checked),
            outputs={each: _output_options(output) for each, output in stage.outputs.items()},
            requires=stage.requires,
        ),
        stack=script_stack(stage),
        inputs=step_inputs(name, checked, *stage.inputs),
        files=checked.files.get(name, {}),
        resources=Resources(cpus=cpus, gpus=stage.gpus, network=stage.network),
    )


def _output_options(output: Literal["model"] | ScriptOutput) -> OutputOptions:
    if isinstance(output, str):
        return OutputOptions(columns=None, like=None)
    return OutputOptions(columns=output.rows, like=output.like)


STAGE_DRAFTERS: dict[type, Callable[[str, Any, CheckedRecipe], Draft]] = {
    Train: _train,
    Evaluate: _evaluate,
    Benchmark: _benchmark,
    Gate: _gate,
    Export: _export,
    Generate: _generate,
    Script: _script,
}
