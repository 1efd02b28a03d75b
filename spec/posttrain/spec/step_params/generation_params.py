"""Parameters that all steps that generate share: models, prompts, sampling, endpoints."""

from collections.abc import Mapping

from posttrain.spec.canonical_json import Json
from posttrain.spec.document import Document
from posttrain.spec.field_types import Items
from posttrain.spec.inference import PromptFormat
from posttrain.spec.step_params.step_parameters import StepParams, omitted, omitted_if_empty


class SamplingOptions(Document):
    """Sampling parameters. The seed is a parameter of the step."""

    temperature: float
    top_p: float
    top_k: int
    min_p: float
    repetition_penalty: float
    max_tokens: int
    n: int
    batch_size: int
    stop: Items[str]
    continuous_batching: bool
    # The parameters that the model's generation config or an endpoint may set.
    model_defaults: Items[str] = omitted_if_empty(())


class FewShotOptions(Document):
    """Few-shot examples before each prompt."""

    num_fewshot: int
    answer: str
    target_delimiter: str
    fewshot_delimiter: str
    seed: int


class EndpointIdentity(Document):
    """The properties of an endpoint that its completions depend on."""

    provider: str
    model: str
    base_url: str | None
    extra_body: Mapping[str, Json] = omitted_if_empty({})


class EndpointAccess(Document):
    """Connection settings of an endpoint, which do not affect its completions."""

    # The environment variable with the API key.
    api_key: str | None
    concurrency: int
    # None for judges: their nodes have their own.
    timeout_seconds: float | None = omitted()
    max_retries: int | None = omitted()


class ModelTarget(Document):
    """A model or an endpoint to generate with."""

    name: str
    # The role of the model among the inputs.
    role: str
    engine: str
    endpoint: EndpointIdentity | None = omitted()


class GenerationParams(StepParams):
    """Base of the steps that generate with models or endpoints."""

    seed: int
    prompts: PromptFormat
    # Arguments of the chat template besides messages and tools, such as enable_thinking.
    chat_template_kwargs: Mapping[str, Json] = omitted_if_empty({})
    few_shot: FewShotOptions | None
    models: Items[ModelTarget]
    access: Mapping[str, EndpointAccess]
