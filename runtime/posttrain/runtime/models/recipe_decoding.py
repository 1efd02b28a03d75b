"""Decoding as the recipe says, whatever the model's `generation_config.json` sets.

transformers fills every argument that a call of `generate` leaves out from the model's generation config:
penalties, suppressed and forced tokens, beams and more. vLLM does not. Only the end tokens, and the other
tokens with a role, are taken from there.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from posttrain.runtime.step_context import StepContext
from posttrain.spec.generation_config import (
    SAMPLING_FIELDS,
    TOKEN_FIELDS,
    decoding_settings,
    format_settings,
)
from posttrain.spec.step_params.artifact_params import GenerateStepParams
from posttrain.spec.step_params.eval_params import EvalStepParams
from posttrain.spec.step_params.generation_params import SamplingOptions
from posttrain.spec.step_params.step_parameters import StepParams

_CONFIG = "generation_config"


@contextmanager
def recipe_decoding(model: Any) -> Generator[None]:
    """In this context, `generate` takes only tokens with a role from the model's generation config."""
    owners = [module for module in model.modules() if _CONFIG in vars(module)]
    originals = [vars(owner)[_CONFIG] for owner in owners]
    neutral = _token_config(model.generation_config)
    for owner in owners:
        owner.generation_config = neutral
    try:
        yield
    finally:
        for module in model.modules():
            vars(module).pop(_CONFIG, None)  # PEFT sets it on a module below
        for owner, original in zip(owners, originals, strict=True):
            owner.generation_config = original


def discard_decoding(model: Any) -> None:
    """Remove everything but tokens with a role from the generation config of a model that is not saved."""
    neutral = _token_config(model.generation_config)
    for module in model.modules():
        if _CONFIG in vars(module):
            module.generation_config = neutral


def _token_config(config: Any) -> Any:
    from transformers import GenerationConfig

    return GenerationConfig(**{name: getattr(config, name, None) for name in TOKEN_FIELDS})


def model_settings(model: Any) -> dict[str, Any]:
    """What the generation config of a model in memory would change in decoding."""
    return decoding_settings(model.generation_config.to_dict())


def report_settings(context: StepContext, name: str, settings: Mapping[str, Any], applied: Any = ()) -> None:
    """Record what a model's generation config sets and the step does not apply, and log it in one line."""
    ignored = {field: value for field, value in settings.items() if field not in applied}
    if ignored:
        context.facts[f"ignored_generation_config.{name}"] = ignored
        text = f"{name}: not applied from generation_config.json: {format_settings(ignored)}"
        context.events.emit("phase", name=text)


def model_defaults(params: StepParams) -> tuple[str, ...]:
    """The sampling parameters that a step leaves to the model's generation config."""
    return params.sampling.model_defaults if isinstance(params, EvalStepParams | GenerateStepParams) else ()


def fill_sampling(sampling: SamplingOptions, config: Mapping[str, Any]) -> SamplingOptions:
    """`sampling` with the values of a generation config for the fields that the recipe leaves to it."""
    unset = [name for name in sampling.model_defaults if config.get(name) is not None]
    if config.get("do_sample") is False and "temperature" in unset:
        unset.remove("temperature")
    assert set(unset) <= set(SAMPLING_FIELDS), "the compiler names only these"
    return sampling.model_copy(update={name: config[name] for name in unset})
