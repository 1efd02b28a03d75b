"""Reads steps and their parameters from a plan. What does not fit is a StepError that names the field."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from posttrain.runtime.errors import StepError
from posttrain.runtime.store.document_files import read_document
from posttrain.spec.document_json import DocumentError
from posttrain.spec.extension import Params
from posttrain.spec.plan import Step
from posttrain.spec.step_params.params_by_kind import parse_step_params
from posttrain.spec.step_params.step_parameters import StepParams
from posttrain.spec.validation import DeclarationError, parse_declaration

_ADVICE = Step.ADVICE
ParamsT = TypeVar("ParamsT", bound=Params)


def read_step(path: Path) -> Step:
    """Read the file of a step."""
    try:
        return read_document(Step, path)
    except DocumentError as error:
        raise StepError(f"invalid step in {error}", error.advice) from None


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
