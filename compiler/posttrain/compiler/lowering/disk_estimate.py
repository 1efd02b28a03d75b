"""The disk space that a step needs: for its product, and for the checkpoints while it trains."""

from collections.abc import Mapping

from posttrain.compiler.facts.parameter_counts import count_parameters
from posttrain.compiler.facts.trained_parameters import trained_parameter_count
from posttrain.compiler.lowering.draft_parts import Draft
from posttrain.compiler.memory.model_states import OPTIMIZER_STATE_BYTES
from posttrain.compiler.resolution.lineage import trains_in_float32, weight_element_size
from posttrain.compiler.semantic_checks import CheckedRecipe
from posttrain.compiler.stages.train_stage import CheckedTraining
from posttrain.spec.adapter_declaration import Adapter
from posttrain.spec.architectures.model_shapes import Shape
from posttrain.spec.canonical_json import Json
from posttrain.spec.model_declaration import Model
from posttrain.spec.step_params.artifact_params import ExportStepParams

_GB = 1 << 30
_ADAPTER_ELEMENT = 4  # PEFT trains and saves an adapter in float32


def with_disk_estimate(node: str, draft: Draft, checked: CheckedRecipe) -> Mapping[str, Json] | None:
    """The estimate of a step with its disk space, if the shape of the model is known."""
    thing, _, name = node.partition(":")
    line = checked.lineages.get(node)
    origin = name if thing == "model" else line.origin if line is not None else None
    shape = checked.shapes.get(origin or "")
    if shape is None or draft.kind not in ("model", "train", "export"):
        return draft.estimate
    model = checked.resolved.recipe.models[origin or ""]
    adapter = line.adapter if line is not None and thing == "stage" else None
    if adapter is not None and adapter.type == "full":
        adapter = None
    stored = count_parameters(shape) * weight_element_size(model)
    found: dict[str, float] = {"disk_gb": stored / _GB}
    if draft.kind == "export" and isinstance(draft.params, ExportStepParams) and not draft.params.merge:
        found["disk_gb"] = (_adapter_bytes(adapter, shape, model) if adapter else stored) / _GB
    if draft.kind == "train":
        kept = adapter.as_trained() if adapter is not None else None
        product = _adapter_bytes(kept, shape, model) if kept else stored
        checkpoint = _checkpoint_bytes(checked.trainings[name], adapter, shape, model)
        # A checkpoint is deleted only after the next one is complete.
        most = dict(checked.trainings[name].params).get("save_total_limit", 1) + 1
        found = {"disk_gb": product / _GB, "checkpoints_gb": most * checkpoint / _GB}
    return {**(draft.estimate or {}), **{key: round(value, 6) for key, value in found.items()}}


def _adapter_bytes(adapter: Adapter, shape: Shape, model: Model) -> int:
    tokens = len(model.tokenizer.new_tokens) if model.tokenizer is not None else 0
    return (trained_parameter_count(adapter, shape, added_tokens=tokens) or 0) * _ADAPTER_ELEMENT


def _checkpoint_bytes(
    training: CheckedTraining, adapter: Adapter | None, shape: Shape, model: Model
) -> float:
    """The bytes of one checkpoint: the trained weights, and the optimizer states."""
    wide, narrow = OPTIMIZER_STATE_BYTES["adamw"]
    if adapter is not None:
        return _adapter_bytes(adapter, shape, model) * (1 + wide / _ADAPTER_ELEMENT)
    element = 4 if trains_in_float32(model) else weight_element_size(model)
    models = 2 if training.method.footprint.has_value_model(training.params) else 1
    return models * count_parameters(shape) * (element + (wide if element == 4 else narrow))
