"""Builds the drafts of models, datasets and stages."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from posttrain.compiler.lowering.draft_parts import (
    Draft,
    step_input,
)
from posttrain.compiler.lowering.stage_drafts import STAGE_DRAFTERS
from posttrain.compiler.model_templates import ChosenTemplate
from posttrain.compiler.placement.stage_placement import StagePlacement
from posttrain.compiler.seeds import seed_for
from posttrain.compiler.semantic_checks import CheckedRecipe
from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.spec.chat_templates.builtin_templates import BUILTIN_TEMPLATES
from posttrain.spec.origin_names import is_folder
from posttrain.spec.plan import Resources
from posttrain.spec.process_variables import HUB_CREDENTIAL
from posttrain.spec.step_params.artifact_params import BuiltinTemplateParams, ModelStepParams
from posttrain.spec.step_params.data_params import DataStepParams, SourceParams
from posttrain.spec.step_params.train_params import TrainStepParams


def draft_step(node: str, checked: CheckedRecipe, request: CompileRequest) -> Draft:
    thing, _, name = node.partition(":")
    match thing:
        case "model":
            return _draft_model(name, checked)
        case "dataset":
            return _draft_dataset(name, checked)
        case _:
            stage = checked.resolved.recipe.stages[name]
            return STAGE_DRAFTERS[type(stage)](name, stage, checked)


def _draft_model(name: str, checked: CheckedRecipe) -> Draft:
    model = checked.resolved.recipe.models[name]
    tokenizer = model.tokenizer
    origins = [model, *([] if tokenizer is None else [tokenizer])]
    hub = [(one.from_, one.revision) for one in origins if one.from_ and not is_folder(one.from_)]
    return Draft(
        kind="model",
        entry=("verb", "model"),
        params=ModelStepParams(
            init=model.init,
            from_=model.from_,
            revision=model.revision,
            tokenizer=model.tokenizer,
            chat_template=None if model.chat_template in BUILTIN_TEMPLATES else model.chat_template,
            builtin_template=_builtin_params(checked.templates.get(name)),
            tags=model.tags,
            chat_template_kwargs=model.chat_template_kwargs,
            dtype=model.dtype,
            quantize=model.quantize,
            seed=seed_for(checked.resolved.recipe.seed, f"model:{name}"),
        ),
        files=checked.models[name],
        pinned=all(_is_commit(revision) for _, revision in hub),
        secrets=(HUB_CREDENTIAL,) if hub else (),
        resources=Resources(network=bool(hub)),
    )


def _builtin_params(chosen: ChosenTemplate | None) -> BuiltinTemplateParams | None:
    if chosen is None:
        return None
    template = chosen.template
    return BuiltinTemplateParams(name=template.name, sha256=template.sha256, fallback=chosen.fallback)


def _is_commit(revision: str | None) -> bool:
    return revision is not None and len(revision) == 40 and not set(revision) - set("0123456789abcdef")


def _draft_dataset(name: str, checked: CheckedRecipe) -> Draft:
    rows = checked.rows[name]
    owner = f"dataset:{name}"
    refs = checked.resolved.by_owner.get(owner, {})
    inputs = {
        "rows" if role == "from" else f"other:{ref.text}": step_input(ref) for role, ref in refs.items()
    }
    source = rows.source
    return Draft(
        kind="data",
        entry=("verb", "data"),
        params=DataStepParams(
            source=SourceParams(name=source.name, params=rows.params) if source else None,
            operations=rows.operations,
            seed=seed_for(checked.resolved.recipe.seed, owner),
            columns=rows.table.columns,
            window_rows=rows.window_rows,
        ),
        used=rows.extensions,
        inputs=inputs,
        files=rows.files,
        pinned=rows.pinned,
        secrets=source.secrets if source is not None else (),
        resources=Resources(network=source is not None and source.network),
    )


def apply_placement(draft: Draft, placed: StagePlacement) -> Draft:
    """The draft of a stage with its placement on the target."""
    params = draft.params
    if isinstance(params, TrainStepParams):
        # The engine is part of the key: another one generates other completions.
        engine = "vllm" if placed.launch.engine == "vllm" else None
        params = params.with_fields(params=_placement_params(params.params, placed), engine=engine)
    return replace(
        draft,
        params=params,
        # A script declares its own GPUs.
        resources=draft.resources.model_copy(update={"gpus": max(draft.resources.gpus, placed.gpus)}),
        launch=placed.launch,
        estimate=placed.estimate,
    )


def _placement_params(params: Mapping[str, Any], placed: StagePlacement) -> dict[str, Any]:
    """The method's parameters, with the values that the placement determines."""
    precision = "float32" if params.get("precision") == "auto" else params.get("precision")
    return {**params, "precision": precision, **placed.params}
