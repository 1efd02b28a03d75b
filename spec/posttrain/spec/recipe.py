"""What a recipe is: the declarations. The verbs are in `stages`.

Every field has one meaning, one default and one line of documentation. The JSON Schema, `recipe
explain` and the reference pages all print that line.
"""

from typing import Annotated, Any, Literal

from posttrain.spec.declared import Declaration, field
from posttrain.spec.limits import Limits

NAME_FORM = r"^[A-Za-z][A-Za-z0-9_-]{0,63}$"
Name = Annotated[str, Limits(pattern=NAME_FORM)]
Pair = Annotated[list[str], Limits(min_length=2, max_length=2)]
Scalar = str | int | float | bool | None


class Scratch(Declaration):
    """The shape of a model that starts from random weights."""

    family: str = field(description="The architecture, such as qwen2, llama or gpt2.")
    layers: int = field(ge=1, description="Transformer layers.")
    hidden: int = field(ge=8, description="The width of the residual stream.")
    heads: int = field(ge=1, description="Attention heads.")
    kv_heads: int | None = field(default=None, ge=1, description="Key/value heads; as many as heads.")
    intermediate: int | None = field(default=None, ge=8, description="The width inside the MLP.")
    context: int = field(default=512, ge=8, description="The longest sequence, in tokens.")
    rope_theta: float | None = field(
        default=None,
        gt=1,
        description="The base of the rotary positions; the architecture's own if not given.",
    )
    spread: float | None = field(
        default=None,
        gt=0,
        description="The standard deviation of the random weights; the architecture's own.",
    )
    tied: bool = field(default=True, description="Whether input and output embeddings are one.")


class Tokenizer(Declaration):
    """Where the tokenizer comes from, when not from the model itself."""

    init: Literal["characters"] | None = field(
        default=None, description="Build one: `characters` gives every character a token."
    )
    alphabet: str = field(
        default=" !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`"
        "abcdefghijklmnopqrstuvwxyz{|}~\n",
        description="The characters of a built tokenizer.",
    )
    words: list[str] = field(
        default_factory=list, description="Strings that get one token each, such as tags."
    )
    from_: str | None = field(
        default=None, key="from", description="A hub name or a path to take the tokenizer from."
    )
    revision: str | None = field(default=None, description="The revision on the hub.")


class Adapter(Declaration):
    """What part of the weights is trained."""

    kind: Literal["full", "lora", "qlora"] = field(
        default="lora", description="Train all weights, a LoRA, or a LoRA over 4-bit weights."
    )
    rank: int = field(default=16, ge=1, description="The rank of the LoRA matrices.")
    alpha: float = field(default=32.0, gt=0, description="The scale of the LoRA, over its rank.")
    dropout: float = field(default=0.0, ge=0, lt=1, description="Dropout before the LoRA.")
    targets: Literal["auto"] | list[str] = field(
        default="auto", description="The modules that get a LoRA; auto picks by architecture."
    )
    carry: Literal["continue", "merge"] = field(
        default="continue",
        description="When the model already has an adapter: go on with it, or merge it and start anew.",
    )


class Tags(Declaration):
    """The tags that a completion is expected to hold, for a generated chat template."""

    think: Pair | None = field(
        default=None, description="The tags around the reasoning, opening and closing."
    )
    answer: Pair | None = field(default=None, description="The tags around the answer, opening and closing.")
    system: str | None = field(
        default=None,
        description="What a conversation without a system message begins with; {think_open}, {think_close},"
        " {answer_open} and {answer_close} stand for the tags.",
    )


class Model(Declaration):
    """A model to start from."""

    init: Scratch | None = field(default=None, description="Random weights of this shape.")
    from_: str | None = field(
        default=None,
        key="from",
        description="ORG/NAME on the hub, or a folder beside the recipe, written ./NAME.",
    )
    revision: str | None = field(
        default=None, description="The hub revision; a full commit hash makes the run repeatable."
    )
    tokenizer: Tokenizer | None = field(
        default=None, description="The tokenizer, when it is not the model's own."
    )
    chat_template: str | None = field(
        default=None, description="A Jinja file beside the recipe that renders conversations."
    )
    tags: Tags | None = field(default=None, description="Tags for a generated chat template.")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = field(
        default="auto", description="The precision of the weights; auto keeps what is stored."
    )
    quantize: Literal["none", "int8", "nf4"] = field(
        default="none", description="Quantise the frozen weights when loading."
    )
    adapter: Adapter | None = field(
        default=None, description="How stages train this model, unless they say otherwise."
    )


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
    url: str | None = field(
        default=None,
        pattern=r"^https?://[^\s/@]+(/[^\s?]*)?$",
        description="The base URL, when not the provider's; it holds no password and no query.",
    )
    key: Secret | None = field(default=None, description="The secret that opens it.")
    concurrency: int = field(
        default=8,
        ge=1,
        le=1024,
        description="Requests under way at most; it begins with few, and halves when the server is busy.",
    )
    timeout_seconds: float = field(
        default=300.0, gt=0, description="The longest that one request takes; judges say their own."
    )
    attempts: int = field(
        default=6, ge=1, le=20, description="Tries for each completion; judges say their own."
    )
    extra: dict[str, Any] = field(
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

    kind: str = field(description="The environment's name in the catalog.")
    params: dict[str, Any] = field(
        default_factory=dict[str, Any], description="The environment's own parameters."
    )
    turns: int = field(default=8, ge=1, le=1000, description="The most turns of the model in an episode.")
    turn_tokens: int | None = field(
        default=None,
        ge=1,
        description="The longest turn of the model, in tokens; bounded by what max_tokens of the stage leaves"
        " of the episode if not given.",
    )
    reply: str = field(
        default="\n{observation}\n",
        pattern=r"\{observation\}",
        description="How an observation stands in plain text prompts, with {observation}; in conversations it"
        " is a user's turn.",
    )
    seconds: float = field(
        default=30.0, gt=0, description="The longest that the environment may take over one turn."
    )
    on_error: Literal["abstain", "fail"] | float = field(
        default="fail",
        description="What an episode counts for in which the environment raises or takes too long: the stage"
        " fails, the episode has no score, or it has this one.",
    )


class Rollouts(Declaration):
    """Where a method that learns from its own completions has them written."""

    engine: Literal["auto", "transformers", "vllm"] = field(
        default="auto", description="What writes them; auto is vllm on GPUs, transformers elsewhere."
    )
    mode: Literal["colocate", "server"] = field(
        default="colocate",
        description="Whether vLLM shares the GPUs of the training, or has GPUs of its own.",
    )
    gpus: int | None = field(default=None, ge=1, description="GPUs of vLLM's own, with `mode: server`.")
    utilisation: float | None = field(
        default=None, gt=0, lt=1, description="The share of a GPU that vLLM takes; computed if not given."
    )
    tensor_parallel: int | None = field(
        default=None, ge=1, description="GPUs that vLLM divides the model over; the fewest that hold it."
    )
    sleep: bool | None = field(
        default=None, description="Whether vLLM gives its memory back while the model trains."
    )


class Placement(Declaration):
    """How a training stage lies on the target. What is not given, the compiler chooses, and says why."""

    processes: int | None = field(
        default=None, ge=1, description="Processes, one a GPU; as many as the batch divides by."
    )
    strategy: Literal["auto", "single", "ddp", "zero1", "zero2", "zero3", "fsdp"] = field(
        default="auto",
        description="How the states are divided over processes: ddp not at all, zero1 to zero3 and fsdp"
        " more and more; auto takes the first that fits.",
    )
    rollouts: Rollouts = field(default_factory=Rollouts, description="Where completions are written.")


class Hardware(Declaration):
    """The target machine, which need not be this one."""

    gpus: str | None = field(default=None, description="Count and kind, such as 8xH100-80GB.")
    nodes: int = field(default=1, ge=1, description="Machines of that kind.")
    cpus: int | None = field(default=None, ge=1, description="Cores that a computing step takes; else one.")
    memory_gb: float | None = field(default=None, gt=0, le=1e6, description="Main memory a machine, in GB.")
    price_per_hour: float | None = field(
        default=None, ge=0, le=1e6, description="What a machine costs an hour, for estimates."
    )


class Container(Declaration):
    """The image that steps run in."""

    image: str = field(description="An image by digest: NAME@sha256:...")


class Retry(Declaration):
    """What to do about failures that may pass."""

    attempts: int = field(default=1, ge=1, le=10, description="Tries in all.")
    wait_seconds: float = field(default=5.0, ge=0, description="The first pause; it doubles.")
