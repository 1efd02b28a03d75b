"""How stages ask models: prompts, sampling, worked examples, conversations, what is kept."""

from typing import Annotated, Literal

from posttrain.spec.declaration_fields import Declaration, field
from posttrain.spec.field_limits import Limits

PromptFormat = Literal["auto", "chat", "plain"]
PROMPTS_DESCRIPTION = (
    "How text prompts reach the model: as a user's message through the chat template, or as plain"
    " text; auto takes the template where the model has one."
)


MAX_TOKENS_DESCRIPTION = (
    "The longest completion, in tokens; in an environment all of an episode that follows its prompt, with"
    " what the model is told."
)


class Sampling(Declaration):
    """How completions are drawn."""

    temperature: float = field(default=0.0, ge=0, description="0 takes the likeliest token.")
    top_p: float = field(default=1.0, gt=0, le=1, description="Nucleus sampling's mass.")
    max_tokens: int = field(default=256, ge=1, description=MAX_TOKENS_DESCRIPTION)
    n: int = field(default=1, ge=1, description="Completions for each row.")
    batch_size: int = field(
        default=64, ge=1, description="Rows generated together; no effect on greedy text."
    )
    stop: list[Annotated[str, Limits(min_length=1)]] = field(
        default_factory=list[str],
        description="Texts that end a completion, which keeps them; not for endpoints.",
    )
    continuous_batching: bool = field(
        default=False,
        description="Fill the places of ended completions at once instead of by batches (transformers).",
    )


EngineName = Literal["auto", "transformers", "vllm"]
ENGINE_DESCRIPTION = (
    "What generates; auto is vllm on GPUs, transformers elsewhere. Endpoints are asked over HTTP."
)


class FewShot(Declaration):
    """Worked examples before each prompt. None is the row's own."""

    data: str = field(description="The rows to take them from: NAME.PART, with a column `prompt`.")
    num_fewshot: int = field(default=4, ge=1, le=64, description="How many stand before a prompt.")
    answer: str = field(default="answer", description="The column with their answers.")
    target_delimiter: str = field(
        default=" ", description="What stands between a shot's prompt and its answer, in plain prompts."
    )
    fewshot_delimiter: str = field(default="\n\n", description="What stands between shots, in plain prompts.")


TEMPLATE_DESCRIPTION = "A text file beside the recipe with {prompt} where the row's prompt goes."


class MinScore(Declaration):
    """Keep what scores at least so much."""

    above: float = field(description="The least score that is kept.")


class Dialogue(Declaration):
    """A conversation of two models, written turn by turn."""

    with_: str = field(
        key="with",
        description="The other side: a model, an endpoint or a stage. It writes the user's turns, and sees"
        " the conversation with the roles exchanged.",
    )
    turns: int = field(ge=1, le=200, description="The most turns of the model that `generate` names.")
    opening: str = field(
        default="{prompt}", description="What the other side says first; {COLUMN} is a column of the data."
    )
    system: str = field(
        default="", description="What the model is told beforehand, with {COLUMN}; the first message."
    )
    with_system: str = field(default="", description="What the other side is told beforehand, with {COLUMN}.")
    begin: str = field(
        default="Begin.", description="The user's turn before the opening, as the other side sees it."
    )
    stop: list[Annotated[str, Limits(min_length=1)]] = field(
        default_factory=list[str], description="A turn that holds one of these is the last."
    )
    with_sampling: Sampling | None = field(
        default=None, description="How the other side's turns are drawn; as the model's if not given."
    )
