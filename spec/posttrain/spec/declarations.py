"""Declarations of datasets, rewards, endpoints and environments."""

from typing import Any, Literal

from pydantic import Field

from posttrain.spec.declaration_fields import Declaration
from posttrain.spec.field_types import Items, JsonValue, Name


class Dataset(Declaration):
    """Rows with named columns, read from a source and transformed by data steps."""

    from_: Any = Field(
        alias="from", description="Source with its parameters, or the name of another dataset or stage."
    )
    steps: Items[dict[str, Any]] = Field(
        default=(),
        description="Data steps, applied in order. Each is a mapping of one key.",
    )
    size: int | None = Field(
        default=None,
        ge=1,
        description="Approximate number of rows of the source. The compiler uses it to estimate time and cost"
        " if it cannot count the rows before the run.",
    )


class Reward(Declaration):
    """A graph of nodes that scores completions."""

    reads: dict[str, str] = Field(
        description="Inputs of the graph with their types: `completion`, and columns of the data."
    )
    nodes: dict[Name, Any] = Field(
        default_factory=dict[str, Any], description="Named nodes. Each is one op with its operands."
    )
    returns: Any = Field(description="Node whose value is the reward.")


class Secret(Declaration):
    """A reference to a secret. The recipe holds its name, never its value."""

    env: str = Field(description="Environment variable that holds the value.")


class EndpointPrice(Declaration):
    """Price of an endpoint, in US dollars per million tokens."""

    input: float = Field(ge=0, le=1e6, description="Dollars per million input tokens.")
    output: float = Field(ge=0, le=1e6, description="Dollars per million output tokens.")


class Endpoint(Declaration):
    """A model that is served over HTTP."""

    provider: Literal["openai", "anthropic", "gemini", "openrouter", "vllm"] = Field(
        description="Provider, which determines the HTTP API."
    )
    model: str = Field(description="Name of the model at the provider.")
    base_url: str | None = Field(
        default=None,
        pattern=r"^https?://[^\s/@]+(/[^\s?]*)?$",
        description="Base URL, without a password or query. Default: the provider's.",
    )
    api_key: Secret | None = Field(default=None, description="API key, as {env: VARIABLE}.")
    concurrency: int = Field(
        default=8,
        ge=1,
        le=1024,
        description="Maximum number of concurrent requests. The client starts with few, and halves the number"
        " when the server is overloaded.",
    )
    timeout_seconds: float = Field(
        default=300.0,
        gt=0,
        description="Timeout of one request, in seconds. `judge` nodes have their own timeout.",
    )
    max_retries: int = Field(
        default=5,
        ge=0,
        le=19,
        description="Retries of a failed request. `judge` nodes have their own value.",
    )
    extra_body: dict[str, JsonValue] = Field(
        default_factory=dict[str, Any],
        description="Additional fields of the request body, in the provider's format. A null removes a"
        " field.",
    )
    price: EndpointPrice | None = Field(
        default=None,
        description="Price for the cost estimates of the plan and for the report. Default: the provider's"
        " list price in a table of posttrain, which ages; the plan shows its date. Set it for models that the"
        " table lacks, and for discounts.",
    )
    pinned: bool = Field(
        default=False,
        description="Whether the name always refers to the same model, such as a dated release. If true,"
        " later runs reuse finished evals of this endpoint.",
    )


class Environment(Declaration):
    """An environment in which a model acts over several turns."""

    type: str = Field(description="Type of the environment.")
    params: dict[str, Any] = Field(
        default_factory=dict[str, Any], description="Parameters of this type of environment."
    )
    max_turns: int = Field(
        default=8, ge=1, le=1000, description="Maximum number of model turns in an episode."
    )
    max_turn_tokens: int | None = Field(
        default=None,
        ge=1,
        description="Maximum length of one model turn, in tokens. Default: the remaining tokens of the"
        " episode.",
    )
    observation_template: str = Field(
        default="\n{observation}\n",
        pattern=r"\{observation\}",
        description="Template of an observation in plain prompts, with {observation}. In conversations an"
        " observation is a turn.",
    )
    observation_role: Literal["tool", "user"] = Field(
        default="tool",
        description="Role of the results of tool calls in conversations. `user` is for chat templates that do"
        " not render turns of tools. Observations that answer text are always user turns.",
    )
    timeout_seconds: float = Field(
        default=30.0, gt=0, description="Time limit of the environment for one turn, in seconds."
    )
    on_error: Literal["abstain", "fail"] | float = Field(
        default="fail",
        description="Handling of an episode in which the environment raises an exception or exceeds its time"
        " limit: `fail` stops the stage, `abstain` leaves the episode without a score, a number is its"
        " score.",
    )
