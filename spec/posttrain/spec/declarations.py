"""What stages work with beside models: datasets, rewards, endpoints, environments."""

from typing import Any, Literal

from posttrain.spec.declaration_fields import Declaration, field
from posttrain.spec.field_types import Name


class Dataset(Declaration):
    """Rows with named columns, made by a source and refined by steps."""

    from_: Any = field(key="from", description="A source with its parameters, or another dataset or stage.")
    steps: list[dict[str, Any]] = field(
        default_factory=list[dict[str, Any]], description="Data steps, each one key and its value."
    )
    size: int | None = field(
        default=None,
        ge=1,
        description="About how many rows the source gives: for estimates of time and cost, where that is"
        " known only when they are read.",
    )


class Reward(Declaration):
    """A graph of nodes that scores completions."""

    reads: dict[str, str] = field(
        description="What the graph reads: `completion`, and columns of the data, with their types."
    )
    nodes: dict[Name, Any] = field(
        default_factory=dict[str, Any], description="Named nodes, each one op and its operands."
    )
    returns: Any = field(description="The node that is the reward.")


class Secret(Declaration):
    """A secret by name; its value stays outside."""

    env: str = field(description="The environment variable that holds the value.")


class Endpoint(Declaration):
    """A model behind an HTTP interface."""

    provider: Literal["openai", "anthropic", "gemini", "openrouter", "vllm"] = field(
        description="Whose interface it speaks."
    )
    model: str = field(description="The model's name there.")
    base_url: str | None = field(
        default=None,
        pattern=r"^https?://[^\s/@]+(/[^\s?]*)?$",
        description="The base URL, when not the provider's; it holds no password and no query.",
    )
    api_key: Secret | None = field(default=None, description="The secret that opens it.")
    concurrency: int = field(
        default=8,
        ge=1,
        le=1024,
        description="Requests under way at most; it begins with few, and halves when the server is busy.",
    )
    timeout_seconds: float = field(
        default=300.0, gt=0, description="The longest that one request takes; judges say their own."
    )
    max_retries: int = field(
        default=5,
        ge=0,
        le=19,
        description="Retries of a failed request; a `judge` node has its own.",
    )
    extra_body: dict[str, Any] = field(
        default_factory=dict[str, Any],
        description="Further fields of each request, as the provider has them; null takes one away.",
    )
    pinned: bool = field(
        default=False,
        description="Whether the name stands for one model for good, such as a dated release: then finished"
        " evals of it are taken as they are in later runs.",
    )


class Environment(Declaration):
    """A place in which a model acts over several turns."""

    type: str = field(description="The environment's name in the catalog.")
    params: dict[str, Any] = field(
        default_factory=dict[str, Any], description="The environment's own parameters."
    )
    max_turns: int = field(default=8, ge=1, le=1000, description="The most turns of the model in an episode.")
    max_turn_tokens: int | None = field(
        default=None,
        ge=1,
        description="The longest turn of the model, in tokens; bounded by what max_tokens of the stage leaves"
        " of the episode if not given.",
    )
    observation_template: str = field(
        default="\n{observation}\n",
        pattern=r"\{observation\}",
        description="How an observation stands in plain text prompts, with {observation}; in conversations it"
        " is a user's turn.",
    )
    timeout_seconds: float = field(
        default=30.0, gt=0, description="The longest that the environment may take over one turn."
    )
    on_error: Literal["abstain", "fail"] | float = field(
        default="fail",
        description="What an episode counts for in which the environment raises or takes too long: the stage"
        " fails, the episode has no score, or it has this one.",
    )
