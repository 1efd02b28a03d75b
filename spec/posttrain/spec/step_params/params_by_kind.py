"""Parses the parameters of a step with the model of its kind."""

from collections.abc import Mapping

from pydantic import ValidationError

from posttrain.spec.document_reader import field_errors
from posttrain.spec.plan import Step
from posttrain.spec.step_params.artifact_params import (
    ExportStepParams,
    GenerateStepParams,
    ModelStepParams,
    ScriptStepParams,
)
from posttrain.spec.step_params.data_params import DataStepParams
from posttrain.spec.step_params.eval_params import BenchmarkStepParams, EvalStepParams, GateStepParams
from posttrain.spec.step_params.step_parameters import StepParams
from posttrain.spec.step_params.train_params import TrainStepParams

_MODELS: Mapping[str, type[StepParams]] = {
    "model": ModelStepParams,
    "data": DataStepParams,
    "train": TrainStepParams,
    "eval": EvalStepParams,
    "gate": GateStepParams,
    "generate": GenerateStepParams,
    "export": ExportStepParams,
    "script": ScriptStepParams,
}


def parse_step_params(step: Step) -> StepParams:
    """The parameters of a step. Raises ValueError that names every wrong field."""
    model = _MODELS.get(step.kind)
    if model is None:
        raise ValueError(f"`{step.kind}` is not a kind of step")
    if model is EvalStepParams and isinstance(step.params, Mapping) and "tasks" in step.params:
        model = BenchmarkStepParams  # a benchmark is an eval of tasks
    try:
        return model.model_validate(step.params)
    except ValidationError as error:
        raise ValueError(field_errors(error)) from None
