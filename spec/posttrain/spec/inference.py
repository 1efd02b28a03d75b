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
    """How completions are sampled."""

    temperature: float = field(
        default=0.0, ge=0, description="The sampling temperature; 0 is greedy decoding."
    )
    top_p: float = field(
        default=1.0, gt=0, le=1, description="Sample from the most likely tokens of this total probability."
    )
    top_k: int = field(default=0, ge=0, description="Sample from the k most likely tokens; 0 is all tokens.")
    min_p: float = field(
        default=0.0,
        ge=0,
        le=1,
        description="Drop tokens below this share of the most likely token's probability.",
    )
    repetition_penalty: float = field(
        default=1.0,
        gt=0,
        le=2,
        description="Divides the scores of tokens that occurred already; above 1 discourages repetition.",
    )
    max_tokens: int = field(default=256, ge=1, description=MAX_TOKENS_DESCRIPTION)
    n: int = field(default=1, ge=1, description="Completions for each row.")
    seed: int | None = field(
        default=None,
        ge=0,
        description=(
            "The sampling seed. Default: derived from the recipe's seed and the stage's name (evals: the"
            " name of the data, so that evals of the same rows sample alike)."
        ),
    )
    batch_size: int = field(
        default=64,
        ge=1,
        description="Rows generated together (transformers). It does not change greedy completions.",
    )
    stop: list[Annotated[str, Limits(min_length=1)]] = field(
        default_factory=list[str],
        description="Strings that end a completion and stay in it. Not for endpoints.",
    )
    continuous_batching: bool = field(
        default=False,
        description=(
            "Replace finished sequences of a batch at once instead of waiting for all (transformers)."
        ),
    )

    def check(self) -> None:
        filters = {"top_p": self.top_p < 1, "top_k": self.top_k > 0, "min_p": self.min_p > 0}
        unused = [name for name, given in {**filters, "seed": self.seed is not None}.items() if given]
        if self.temperature == 0 and unused:
            raise ValueError(f"{unused[0]} has no effect at temperature 0, which is greedy decoding")
        unsupported = {"min_p": self.min_p > 0, "repetition_penalty": self.repetition_penalty != 1}
        for name in (name for name, given in unsupported.items() if given and self.continuous_batching):
            raise ValueError(f"transformers ignores {name} with continuous batching: remove one of the two")


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

    min_score: float = field(description="The least score that is kept.")


class Dialogue(Declaration):
    """A conversation of two models, written turn by turn."""

    with_: str = field(
        key="with",
        description=(
            "The other side: a model, an endpoint or a stage. It writes the user's turns, and sees"
            " the conversation with the roles exchanged."
        ),
    )
    max_turns: int = field(ge=1, le=200, description="The most turns of the model that `generate` names.")
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
