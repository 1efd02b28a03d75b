"""The engine for HTTP endpoints."""

from typing import TYPE_CHECKING

from posttrain.runtime.step_context import StepContext
from posttrain.spec.extension import Engine
from posttrain.spec.step_params.generation_params import GenerationParams, ModelTarget

if TYPE_CHECKING:
    from posttrain.runtime.engines.http_generator import HttpGenerator

EXTENSION = Engine(
    name="http",
    version=2,
    summary="Generation with an HTTP endpoint that has the API of OpenAI, Anthropic or Gemini.",
)


def run(context: StepContext[GenerationParams], model_spec: ModelTarget) -> "HttpGenerator":
    from posttrain.runtime.engines.endpoint_client import connect_endpoint
    from posttrain.runtime.engines.http_generator import HttpGenerator

    assert model_spec.endpoint is not None, f"{model_spec.name} is not an endpoint"
    access = context.params.access[model_spec.name]
    record = context.work / "record"
    return HttpGenerator(connect_endpoint(model_spec.name, model_spec.endpoint, access, record))
