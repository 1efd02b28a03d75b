"""Reads steps and their parameters from a plan. What does not fit is a StepError that names the field."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from posttrain.runtime import atomic_io
from posttrain.runtime.errors import StepError
from posttrain.spec.extension import Params
from posttrain.spec.plan import Step, step_from_dict
from posttrain.spec.step_params.params_by_kind import field_errors, parse_step_params
from posttrain.spec.step_params.step_parameters import StepParams
from posttrain.spec.validation import DeclarationError, parse_declaration

_ADVICE = "the plan is damaged or from another version of posttrain: compile the recipe again"
ParamsT = TypeVar("ParamsT", bound=Params)


def read_step(path: Path) -> Step:
    """Read the file of a step."""
    try:
        return step_from_dict(atomic_io.read_json(path))
    except ValidationError as error:
        raise StepError(f"invalid step in {path.name}: {field_errors(error)}", _ADVICE) from None


def read_step_params(step: Step) -> StepParams:
    """Parse the parameters of a step with the model of its kind."""
    try:
        return parse_step_params(step)
    except ValueError as error:
        raise StepError(f"invalid parameters of the step `{step.id}`: {error}", _ADVICE) from None


def read_extension_params(model: type[ParamsT], values: Mapping[str, Any]) -> ParamsT:
    """Parse the parameters of an extension with its own class."""
    try:
        return parse_declaration(model, values)
    except DeclarationError as error:
        raise StepError(f"invalid parameters in the plan: {error}", _ADVICE) from None
