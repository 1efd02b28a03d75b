"""Builds the drafts of stages, by verb."""

from collections.abc import Callable
from typing import Any, Literal

from posttrain.compiler.lowering.draft_parts import (
    Draft,
    compute_resources,
    endpoint_access,
    reward_model_roles,
    stage_seed,
    step_inputs,
    with_environment,
    with_inference,
    with_reward,
)
from posttrain.compiler.lowering.train_drafts import draft_training
from posttrain.compiler.seeds import seed_for
from posttrain.compiler.semantic_checks import CheckedRecipe
from posttrain.compiler.stages.branches import lower_branch
from posttrain.compiler.stages.inference import sampling_params
from posttrain.compiler.stages.script_stage import script_arguments, script_stack
from posttrain.spec.artifact_stages import Export, Generate, Script, ScriptOutput
from posttrain.spec.eval_stages import Benchmark, Evaluate, Gate
from posttrain.spec.inference import Sampling
from posttrain.spec.plan import Resources, StepInput
from posttrain.spec.process_variables import HUB_CREDENTIAL
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
from posttrain.spec.train_stage import Train


def _train(name: str, stage: Train, checked: CheckedRecipe) -> Draft:
    stages = checked.resolved.recipe.stages
    names = stage.evaluate.evals if stage.evaluate else ()
    evals = {each: STAGE_DRAFTERS[Evaluate](each, stages[each], checked) for each in names}
    return draft_training(name, stage, evals, checked)


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
