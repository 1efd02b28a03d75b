"""Options of stages that generate: prompts, sampling, few-shot examples, dialogues, selection."""

from typing import Annotated, Literal

from pydantic import Field

from posttrain.spec.declaration_fields import Declaration
from posttrain.spec.field_types import Items
from posttrain.spec.generation_config import SAMPLING_FIELDS

PromptFormat = Literal["auto", "chat", "plain"]
PROMPTS_DESCRIPTION = (
    "Format of text prompts: `chat` sends them as a user message through the chat template, `plain` as"
    " plain text. auto uses the chat template if the model has one."
)


TEMPLATE_KWARGS_DESCRIPTION = (
    "Arguments of the chat template, such as {enable_thinking: false}. They override `chat_template_kwargs`"
    " of the models; those of a row, in the column `chat_template_kwargs`, override both."
)
MAX_TOKENS_DESCRIPTION = (
    "Maximum length of a completion, in tokens. In an environment the limit covers the whole episode after"
    " the prompt, observations included."
)


class Sampling(Declaration):
    """Sampling parameters."""

    temperature: float = Field(default=0.0, ge=0, description="Sampling temperature; 0 is greedy decoding.")
    top_p: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="Sample from the most likely tokens whose probabilities add up to this value.",
    )
    top_k: int = Field(
        default=0, ge=0, description="Sample from the k most likely tokens; 0 uses all tokens."
    )
    min_p: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Drop tokens whose probability is below this fraction of the most likely token's.",
    )
    repetition_penalty: float = Field(
        default=1.0,
        gt=0,
        le=2,
        description="Penalty on tokens that occurred before; values above 1 discourage repetition.",
    )
    max_tokens: int = Field(default=256, ge=1, description=MAX_TOKENS_DESCRIPTION)
    n: int = Field(default=1, ge=1, description="Completions per row.")
    seed: int | None = Field(
        default=None,
        ge=0,
        description=(
            "Sampling seed. Default: derived from the recipe's seed and the stage's name. Evals use the name"
            " of the data instead, so that evals of the same rows can be compared item by item."
        ),
    )
    batch_size: int = Field(
        default=64,
        ge=1,
        description="Rows per generation batch (transformers). It does not change greedy completions.",
    )
    stop: Items[Annotated[str, Field(min_length=1)]] = Field(
        default=(),
        description="Stop strings. A completion ends after a stop string and includes it. Endpoints do not"
        " support this option.",
    )
    continuous_batching: bool = Field(
        default=False,
        description=(
            "Replace finished sequences of a batch immediately instead of waiting for the whole batch"
            " (transformers)."
        ),
    )

    generation_config: Literal["recipe", "auto"] = Field(
        default="recipe",
        description=(
            "Source of the sampling parameters that this section leaves out. recipe: their defaults here,"
            " whatever the model's generation_config.json says. auto, as in vLLM: temperature, top_p, top_k,"
            " min_p and repetition_penalty from that file; an endpoint uses its own defaults. End tokens"
            " always come from the file and the tokenizer."
        ),
    )

    @property
    def model_defaults(self) -> tuple[str, ...]:
        """The parameters that the model's generation config or an endpoint may set."""
        if self.generation_config == "recipe":
            return ()
        return tuple(name for name in SAMPLING_FIELDS if name not in self.model_fields_set)

    @property
    def is_greedy(self) -> bool:
        """Whether decoding is certainly greedy."""
        return self.temperature == 0 and "temperature" not in self.model_defaults

    def check(self) -> None:
        filters = {"top_p": self.top_p < 1, "top_k": self.top_k > 0, "min_p": self.min_p > 0}
        unused = [name for name, is_set in {**filters, "seed": self.seed is not None}.items() if is_set]
        if self.is_greedy and unused:
            raise ValueError(f"{unused[0]} has no effect at temperature 0, which is greedy decoding")
        unsupported = {
            "min_p": self.min_p > 0,
            "repetition_penalty": self.repetition_penalty != 1,
            "generation_config": self.generation_config == "auto",
        }
        for name in (name for name, is_set in unsupported.items() if is_set and self.continuous_batching):
            raise ValueError(f"transformers ignores {name} with continuous batching: remove one of the two")


EngineName = Literal["auto", "transformers", "vllm"]
ENGINE_DESCRIPTION = (
    "Generation engine. auto is vllm on GPUs and transformers elsewhere. Endpoints ignore this option."
)


class FewShot(Declaration):
    """Few-shot examples before each prompt. A row is never an example for itself."""

    data: str = Field(description="Rows to take the examples from: NAME.PART, with a column `prompt`.")
    num_fewshot: int = Field(default=4, ge=1, le=64, description="Examples per prompt.")
    answer: str = Field(default="answer", description="Column with the answers of the examples.")
    target_delimiter: str = Field(
        default=" ", description="Text between an example's prompt and its answer, in plain prompts."
    )
    fewshot_delimiter: str = Field(default="\n\n", description="Text between examples, in plain prompts.")


TEMPLATE_DESCRIPTION = "Text file in the recipe's folder; the row's prompt replaces {prompt} in it."


class MinScore(Declaration):
    """Keep the completions that reach a minimum score."""

    min_score: float = Field(description="Minimum score of a completion to keep.")


class Dialogue(Declaration):
    """A conversation of two models, generated turn by turn."""

    with_: str = Field(
        alias="with",
        description=(
            "The second model: a model, an endpoint or a stage. It generates the user turns and sees the"
            " conversation with the roles exchanged."
        ),
    )
    max_turns: int = Field(ge=1, le=200, description="Maximum turns of the model that `generate` names.")
    opening: str = Field(
        default="{prompt}",
        description="First user turn. {COLUMN} inserts a column of the data.",
    )
    system: str = Field(
        default="",
        description="System message of the model that `generate` names. {COLUMN} inserts a column.",
    )
    with_system: str = Field(
        default="", description="System message of the second model. {COLUMN} inserts a column."
    )
    begin: str = Field(
        default="Begin.", description="User turn before the opening in the second model's view."
    )
    stop: Items[Annotated[str, Field(min_length=1)]] = Field(
        default=(),
        description="The dialogue ends after a turn that contains one of these strings.",
    )
    with_sampling: Sampling | None = Field(
        default=None, description="Sampling parameters of the second model. Default: the stage's `sampling`."
    )
