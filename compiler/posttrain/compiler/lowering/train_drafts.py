"""Builds the drafts of training stages."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, cast

from posttrain.compiler.checks.inloop_eval import round_up_to_boundary
from posttrain.compiler.facts.trained_parameters import trained_parameter_count
from posttrain.compiler.lowering.draft_parts import (
    Draft,
    compute_resources,
    reward_model_roles,
    stage_seed,
    step_input,
    step_inputs,
    with_environment,
    with_reward,
    with_streamed_rows,
)
from posttrain.compiler.lowering.launch_key import TrainingOnLaunch, launch_key_parts
from posttrain.compiler.resolution.lineage import Lineage, trains_in_float32
from posttrain.compiler.semantic_checks import CheckedRecipe
from posttrain.compiler.stages.held_out import CheckedHeldOut
from posttrain.spec.canonical_json import Json
from posttrain.spec.declaration_fields import dump_declaration
from posttrain.spec.plan import Launch
from posttrain.spec.step_params.adapter_options import AdapterOptions, adapter_options
from posttrain.spec.step_params.eval_params import EvalStepParams
from posttrain.spec.step_params.train_params import HELD_OUT_ROLE, InLoopEvalOptions, TrainStepParams
from posttrain.spec.train_stage import InLoopEval, Train


def draft_training(name: str, stage: Train, evals: Mapping[str, Draft], checked: CheckedRecipe) -> Draft:
    """The draft of a training stage; `evals` are those of its in-loop evals, by name."""
    training = checked.trainings[name]
    graph = training.graph
    environment = checked.environments.get(stage.environment or "")
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
