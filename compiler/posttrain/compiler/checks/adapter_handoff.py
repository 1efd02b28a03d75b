"""Checks what passes from one training stage to the next: adapters, reference models and reward models."""

from collections.abc import Mapping

from posttrain.compiler.checks.trained_model import TrainedModel
from posttrain.compiler.checks.training_examples import training_example
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.model_json import read_model_json
from posttrain.compiler.resolution.name_resolution import Ref, ResolvedRecipe
from posttrain.compiler.resolution.references import inference_models
from posttrain.compiler.rewards.reward_model_refs import referenced_models
from posttrain.compiler.stages.train_stage import CheckedTraining
from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.adapter_declaration import FIELD_TYPES, Adapter
from posttrain.spec.artifact_stages import Export, Generate
from posttrain.spec.declaration_fields import is_explicitly_set
from posttrain.spec.diagnostic import Code
from posttrain.spec.eval_stages import Benchmark, Evaluate
from posttrain.spec.extension import Catalog
from posttrain.spec.origin_names import is_folder
from posttrain.spec.train_stage import Train

_LORA = "{train: sft, model: base, data: sums.train, adapter: {r: 16}}"
_THEN = _LORA + "\n  then: {train: dpo, model: sft, data: sums.train, %s}"
ADAPTER_MISMATCH = Code(
    "PT0643",
    "adapter settings differ from the existing adapter",
    "error",
    "A stage whose model already has an adapter continues to train that adapter. Its rank, scale, dropout"
    " and target modules are fixed. With `existing_adapter: merge` the adapter is merged into the weights"
    " and a new adapter starts.",
    wrong=training_example(_THEN % "adapter: {r: 8}"),
    right=training_example(_THEN % "adapter: {r: 8, existing_adapter: merge}"),
)
UNUSED_REFERENCE = Code(
    "PT0652",
    "reference model without effect",
    "error",
    "Only methods with a penalty for divergence from a reference model use `reference`. Methods that learn"
    " from a reward use it only if beta is above 0. The reference of an adapter that learns from a reward is"
    " always its own start, so such a stage cannot use another model.",
    wrong=training_example("{train: sft, model: base, reference: base, data: sums.train}"),
    right=training_example("{train: dpo, model: base, reference: base, data: sums.train}"),
)
REFERENCE_NOT_SYNCABLE = Code(
    "PT0646",
    "reference model cannot be synced with an adapter",
    "error",
    "The reference of an adapter is the base model without the adapter, or the adapter at its start. It has"
    " no separate weights to sync.",
    wrong=training_example(
        "{train: dpo, model: base, data: sums.train, adapter: {r: 8}, params: {ref_model_sync_steps: 10}}"
    ),
    right=training_example("{train: dpo, model: base, data: sums.train, params: {ref_model_sync_steps: 10}}"),
)
NOT_GENERATIVE = Code(
    "PT0653",
    "reward model where a generative model is required",
    "error",
    "A stage that trains a reward_model returns a score for a text and cannot generate. Its product can be"
    " exported, used in a reward, or trained further by another reward_model stage. The same holds for models"
    " in a folder whose architecture is a sequence classifier.",
    wrong=training_example("{train: reward_model, model: base, data: sums.train}"),
    right=training_example("{train: sft, model: base, data: sums.train}"),
)
_WITH_SCORER = (
    "{train: sft, model: base, data: sums.train}\n  rm: {train: reward_model, model: base, data: sums.train}"
)
_SCORE = "{score: {when: {math_equal: {of: completion, to: answer}}, then: 1.0}}"
NOT_A_SCORER = Code(
    "PT0654",
    "generative model where a reward model is required",
    "error",
    "The reward op `reward_model` needs the product of a stage that trains a reward_model, or a published"
    " reward model. A generative model has no output for a score.",
    wrong=training_example(_WITH_SCORER).replace(_SCORE, "{reward_model: {of: completion, model: base}}"),
    right=training_example(_WITH_SCORER).replace(_SCORE, "{reward_model: {of: completion, model: rm}}"),
)
CODES = (ADAPTER_MISMATCH, REFERENCE_NOT_SYNCABLE, UNUSED_REFERENCE, NOT_GENERATIVE, NOT_A_SCORER)
# What a stage can change about an adapter that it continues to train.
_FREE_FIELDS = ("existing_adapter", "loraplus_lr_ratio")


def check_existing_adapter(
    trained_model: TrainedModel, before: TrainedModel | None, diagnostics: Diagnostics
) -> None:
    """Report settings that differ from those of the adapter that the stage continues to train."""
    now = trained_model.stage.adapter
    if now is None or before is None or not (trained_model.has_adapter and before.has_adapter):
        return
    if now.existing_adapter == "merge" or before.method.product != trained_model.method.product:
        return
    trained = before.adapter.as_trained() if before.adapter is not None else None
    if trained is None:
        return
    for name in (name for name in Adapter.model_fields if name not in _FREE_FIELDS):
        was = trained.rank if name == "r" and trained.type in FIELD_TYPES["r"] else getattr(trained, name)
        if is_explicitly_set(now, name) and getattr(now, name) != was:
            message = f"the adapter of `{before.name}` is trained further, and its `{name}` is {was}"
            help = f"set `{name}: {was}`, or start a new adapter with `existing_adapter: merge`"
            diagnostics.add(ADAPTER_MISMATCH, (*trained_model.path, "adapter", name), message, help=help)


def check_reference(trained_model: TrainedModel, diagnostics: Diagnostics) -> None:
    path = (*trained_model.path, "reference")
    rewarded = trained_model.method.needs_reward
    if trained_model.param_value("ref_model_sync_steps") is not None and trained_model.has_adapter:
        message = "the reference of an adapter has no separate weights to sync"
        help = "remove the key, or train all weights with `adapter: {type: full}`"
        diagnostics.add(
            REFERENCE_NOT_SYNCABLE, trained_model.param_path("ref_model_sync_steps"), message, help=help
        )
    if trained_model.stage.reference is None:
        return
    if not trained_model.method.needs_reference:
        message = f"`{trained_model.method.name}` does not use a reference model"
        diagnostics.add(UNUSED_REFERENCE, path, message, help="remove the key")
    elif rewarded and trained_model.param_value("beta") == 0:
        message = "the reference has no effect: `beta` is 0"
        diagnostics.add(UNUSED_REFERENCE, path, message, help="set `params.beta` above 0, or remove the key")
    elif rewarded and trained_model.has_adapter:
        message = "an adapter that learns from a reward cannot use another reference model"
        diagnostics.add(UNUSED_REFERENCE, path, message, help="remove the key, or train all weights")


def check_generative_models(
    resolved: ResolvedRecipe,
    trainings: Mapping[str, CheckedTraining],
    request: CompileRequest,
    diagnostics: Diagnostics,
) -> None:
    """Report stages that generate with a reward model."""
    for name, stage in resolved.recipe.stages.items():
        for role, path in _generative_roles(name, stage, trainings.get(name)):
            ref = resolved.refs.get((f"stage:{name}", role))
            if ref is not None and _is_scorer(_before_exports(ref, resolved), resolved, trainings, request):
                message = (
                    f"`{ref.name}` is a reward model or classifier: it returns scores and cannot generate"
                )
                diagnostics.add(NOT_GENERATIVE, path, message)


def _is_scorer(
    ref: Ref, resolved: ResolvedRecipe, trainings: Mapping[str, CheckedTraining], request: CompileRequest
) -> bool:
    """Whether a model certainly returns scores. For published models this is unknown."""
    if ref.kind == "model":
        origin = resolved.recipe.models[ref.name].from_
        return origin is not None and is_folder(origin) and _has_score_head(origin, request)
    training = trainings.get(ref.name)
    return training is not None and training.method.product == "scorer"


def _has_score_head(origin: str, request: CompileRequest) -> bool:
    names = read_model_json(origin, "config.json", request).get("architectures")
    return isinstance(names, list) and bool(names) and str(names[0]).endswith("ForSequenceClassification")


def check_scoring_models(
    resolved: ResolvedRecipe,
    trainings: Mapping[str, CheckedTraining],
    catalog: Catalog,
    diagnostics: Diagnostics,
) -> None:
    """Report rewards that score with a generative model."""
    for stage, declared in resolved.recipe.stages.items():
        name = getattr(declared, "reward", None)
        reward = resolved.recipe.rewards.get(name or "")
        for path, text in referenced_models(reward, ("rewards", name), catalog) if reward and name else ():
            ref = resolved.refs.get((f"stage:{stage}", f"reward:{text}"))
            if ref is not None and _is_generative(ref, resolved, trainings):
                message = f"the reward scores with `{ref.name}`, which is not a reward model"
                help = "name a stage that trains a `reward_model`"
                diagnostics.add(NOT_A_SCORER, path, message, help=help)


def _before_exports(ref: Ref, resolved: ResolvedRecipe) -> Ref:
    """The model that exports copy."""
    for _ in resolved.recipe.stages:  # bounds the loop if exports refer to each other
        if ref.kind == "stage" and isinstance(resolved.recipe.stages.get(ref.name), Export):
            ref = resolved.refs.get((ref.node, "model"), ref)
    return ref


def _is_generative(ref: Ref, resolved: ResolvedRecipe, trainings: Mapping[str, CheckedTraining]) -> bool:
    """Return whether a model certainly generates text. For published models this is unknown."""
    ref = _before_exports(ref, resolved)
    if ref.kind == "model":
        return resolved.recipe.models[ref.name].init is not None
    training = trainings.get(ref.name)
    return training is not None and training.method.product != "scorer"


def _generative_roles(
    name: str, stage: object, training: CheckedTraining | None
) -> list[tuple[str, KeyPath]]:
    """Return the roles, with their paths, in which a stage needs a generative model."""
    match stage:
        case Evaluate() | Benchmark() | Generate():
            return [(role, path) for role, _, path in inference_models(name, stage)]
        case Train() if training is not None and training.method.product == "policy":
            return [(role, ("stages", name, role)) for role in ("model", "reference")]
        case _:
            return []
