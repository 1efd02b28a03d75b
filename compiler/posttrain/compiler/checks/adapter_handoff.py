"""What passes from one training stage to the next: adapters that go on, references, and scorers."""

from collections.abc import Mapping

from posttrain.compiler.checks.trained_model import TrainedModel
from posttrain.compiler.checks.training_examples import training_example
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.resolution.name_resolution import Ref, ResolvedRecipe
from posttrain.compiler.rewards.reward_model_refs import referenced_models
from posttrain.compiler.stages.train_stage import CheckedTraining
from posttrain.spec.artifact_stages import Export, Generate
from posttrain.spec.declaration_fields import is_explicitly_set
from posttrain.spec.diagnostic import Code
from posttrain.spec.eval_stages import Benchmark, Evaluate
from posttrain.spec.extension import Catalog
from posttrain.spec.train_stage import Train

_LORA = "{train: sft, model: base, data: sums.train, adapter: {r: 16}}"
_THEN = _LORA + "\n  then: {train: dpo, model: sft, data: sums.train, %s}"
ADAPTER_MISMATCH = Code(
    "PT0643",
    "an adapter that goes on with another shape",
    "error",
    "A stage whose model already has an adapter goes on with that adapter as it is: its rank, scale and"
    " modules are set. With `existing_adapter: merge` it is merged into the weights, and a new one starts.",
    wrong=training_example(_THEN % "adapter: {r: 8}"),
    right=training_example(_THEN % "adapter: {r: 8, existing_adapter: merge}"),
)
UNUSED_REFERENCE = Code(
    "PT0652",
    "a reference without an effect",
    "error",
    "Only methods that hold the model to a reference take one. grpo does so when beta is above 0. An"
    " adapter that learns from rewards is held to where it starts, and cannot be held to another model.",
    wrong=training_example("{train: sft, model: base, reference: base, data: sums.train}"),
    right=training_example("{train: dpo, model: base, reference: base, data: sums.train}"),
)
REFERENCE_NOT_SYNCABLE = Code(
    "PT0646",
    "a reference that cannot move",
    "error",
    "The reference of an adapter is the model without it, or the adapter as it was: there are no weights"
    " of its own to pull along.",
    wrong=training_example(
        "{train: dpo, model: base, data: sums.train, adapter: {r: 8}, params: {ref_model_sync_steps: 10}}"
    ),
    right=training_example("{train: dpo, model: base, data: sums.train, params: {ref_model_sync_steps: 10}}"),
)
NOT_GENERATIVE = Code(
    "PT0653",
    "a scorer where a model that writes is wanted",
    "error",
    "The product of reward_model gives a number for a text. It can be exported, and trained further by"
    " reward_model; it writes nothing.",
    wrong=training_example("{train: reward_model, model: base, data: sums.train}"),
    right=training_example("{train: sft, model: base, data: sums.train}"),
)
_WITH_SCORER = (
    "{train: sft, model: base, data: sums.train}\n  rm: {train: reward_model, model: base, data: sums.train}"
)
_SCORE = "{score: {when: {math_equal: {of: completion, to: answer}}, then: 1.0}}"
NOT_A_SCORER = Code(
    "PT0654",
    "a model that writes where a scorer is wanted",
    "error",
    "A node `reward_model` scores with the product of a stage that trains a reward_model, or with a published"
    " scorer. A model that writes has nothing that gives a number for a text.",
    wrong=training_example(_WITH_SCORER).replace(_SCORE, "{reward_model: {of: completion, model: base}}"),
    right=training_example(_WITH_SCORER).replace(_SCORE, "{reward_model: {of: completion, model: rm}}"),
)
CODES = (ADAPTER_MISMATCH, REFERENCE_NOT_SYNCABLE, UNUSED_REFERENCE, NOT_GENERATIVE, NOT_A_SCORER)
_FIXED_FIELDS = ("r", "lora_alpha", "use_rslora", "lora_dropout", "target_modules")


def check_existing_adapter(
    trained_model: TrainedModel, before: TrainedModel | None, diagnostics: Diagnostics
) -> None:
    """An adapter that goes on has the shape that it has."""
    now = trained_model.stage.adapter
    if now is None or before is None or not (trained_model.has_adapter and before.has_adapter):
        return
    if now.existing_adapter == "merge" or before.method.product != trained_model.method.product:
        return
    for name in _FIXED_FIELDS:
        was = getattr(before.adapter, name)
        if is_explicitly_set(now, name) and getattr(now, name) != was:
            message = f"the adapter of `{before.name}` goes on, and its {name} is {was}"
            help = f"write {name}: {was}, or `existing_adapter: merge` to start a new one"
            diagnostics.add(ADAPTER_MISMATCH, (*trained_model.path, "adapter", name), message, help=help)


def check_reference(trained_model: TrainedModel, diagnostics: Diagnostics) -> None:
    path = (*trained_model.path, "reference")
    rewarded = trained_model.method.needs_reward
    if trained_model.param_value("ref_model_sync_steps") is not None and trained_model.has_adapter:
        message = "an adapter's reference has no weights of its own to pull along"
        help = "remove it, or train all weights with `adapter: {type: full}`"
        diagnostics.add(
            REFERENCE_NOT_SYNCABLE, trained_model.param_path("ref_model_sync_steps"), message, help=help
        )
    if trained_model.stage.reference is None:
        return
    if not trained_model.method.needs_reference:
        message = f"`{trained_model.method.name}` compares with no reference"
        diagnostics.add(UNUSED_REFERENCE, path, message, help="remove the key")
    elif rewarded and trained_model.param_value("beta") == 0:
        message = "the reference has no weight: beta is 0"
        diagnostics.add(UNUSED_REFERENCE, path, message, help="set params.beta, or remove the reference")
    elif rewarded and trained_model.has_adapter:
        message = "an adapter that learns from rewards is held to where it starts, and to nothing else"
        diagnostics.add(UNUSED_REFERENCE, path, message, help="remove the key, or train all weights")


def check_generative_models(
    resolved: ResolvedRecipe, trainings: Mapping[str, CheckedTraining], diagnostics: Diagnostics
) -> None:
    """No stage asks a scorer to write."""
    for name, stage in resolved.recipe.stages.items():
        for role, key in _generative_roles(stage, trainings.get(name)):
            ref = resolved.refs.get((f"stage:{name}", role))
            asked = trainings.get(ref.name) if ref is not None and ref.kind == "stage" else None
            if asked is not None and asked.method.product == "scorer":
                assert ref is not None, "what was found by its reference has one"
                message = f"`{ref.name}` is a scorer: it gives numbers, and writes nothing"
                diagnostics.add(NOT_GENERATIVE, ("stages", name, key), message)


def check_scoring_models(
    resolved: ResolvedRecipe,
    trainings: Mapping[str, CheckedTraining],
    catalog: Catalog,
    diagnostics: Diagnostics,
) -> None:
    """No reward scores with a model that writes."""
    for stage, declared in resolved.recipe.stages.items():
        name = getattr(declared, "reward", None)
        reward = resolved.recipe.rewards.get(name or "")
        for path, text in referenced_models(reward, ("rewards", name), catalog) if reward and name else ():
            ref = resolved.refs.get((f"stage:{stage}", f"reward:{text}"))
            if ref is not None and _is_generative(ref, resolved, trainings):
                message = f"the reward scores with `{ref.name}`, which writes, and gives no numbers"
                help = "name a stage that trains a `reward_model`"
                diagnostics.add(NOT_A_SCORER, path, message, help=help)


def _is_generative(ref: Ref, resolved: ResolvedRecipe, trainings: Mapping[str, CheckedTraining]) -> bool:
    """Whether it is sure that a model writes; of a published one that is not known."""
    for _ in resolved.recipe.stages:  # an end, though exports name each other
        if isinstance(resolved.recipe.stages.get(ref.name), Export):
            ref = resolved.refs.get((ref.node, "model"), ref)
    if ref.kind == "model":
        return resolved.recipe.models[ref.name].init is not None
    training = trainings.get(ref.name)
    return training is not None and training.method.product != "scorer"


def _generative_roles(stage: object, training: CheckedTraining | None) -> list[tuple[str, str]]:
    """The roles, with their keys, in which a stage needs a model that writes."""
    match stage:
        case Evaluate():
            return [("model", "eval")]
        case Benchmark():
            return [("model", "benchmark")]
        case Generate():
            return [("model", "generate")]
        case Train() if training is not None and training.method.product == "policy":
            return [("model", "model"), ("reference", "reference")]
        case _:
            return []
