"""The score of a reward model for a completion and its prompt."""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from posttrain.runtime.errors import StepError
from posttrain.runtime.rewards.engine.batch import Batch, Operands, OpResult
from posttrain.runtime.rewards.engine.reward_model_inference import RewardModelScorer, load_scorer
from posttrain.spec.extension import Operand, Params, RewardOp


class RewardModelParams(Params):
    model: str = Field(
        description="The reward model: a stage that trains with `train: reward_model`, or a declared model"
        " with a scoring head."
    )
    prompts: Literal["auto", "chat", "plain"] = Field(
        default="auto",
        description="The format of the input: `chat` renders prompt and text with the chat template, `plain`"
        " concatenates them, `auto` uses `chat` if the tokenizer has a chat template.",
    )
    batch_size: int = Field(default=16, ge=1, description="The number of texts in one forward pass.")


EXTENSION = RewardOp(
    name="reward_model",
    summary="The score of a text by a reward model, an unbounded number. Abstains if the text is absent or"
    " longer than the model's context. Use `clip` or `normalize` to limit the scores.",
    params=RewardModelParams,
    operands={
        "of": Operand(type="text", description="The completion to score."),
        "prompt": Operand(
            required=False,
            description="The prompt of the completion, as text or messages. By default, the text is scored"
            " without a prompt.",
        ),
    },
    yields="number",
    slow=True,
    models=("model",),
    stack=("torch", "transformers", "tokenizers"),
    preload=("torch", "transformers.modeling_utils"),
)


def run(params: RewardModelParams, operands: Operands, batch: Batch) -> OpResult:
    folder = batch.models.get(params.model)
    if folder is None:
        raise StepError(
            f"the reward model `{params.model}` is not available: a recipe's models exist only in a run",
            "run a stage that uses this reward; its record has the values of every node",
        )
    prompts = operands.get("prompt", [None] * batch.count)
    values: list[float | None] = [None] * batch.count
    reasons: list[str | None] = ["there is no text"] * batch.count
    rows = [row for row in range(batch.count) if operands["of"][row] is not None]
    model = load_scorer(folder)
    inputs = [model.tokenize(prompts[row], operands["of"][row], params.prompts) for row in rows]
    fitting = [place for place, tokens in enumerate(inputs) if len(tokens) <= model.max_length]
    for row, tokens in zip(rows, inputs, strict=True):
        reasons[row] = f"{len(tokens)} tokens, more than the reward model's context of {model.max_length}"
    scores = _score_batches(model, [inputs[place] for place in fitting], params)
    for place, score in zip(fitting, scores, strict=True):
        values[rows[place]], reasons[rows[place]] = score, None
    return OpResult(values=values, reasons=reasons)


def _score_batches(
    model: RewardModelScorer, texts: Sequence[Sequence[int]], params: RewardModelParams
) -> list[float]:
    """The score of each text. Texts of similar length share a batch, to limit padding."""
    order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
    scores = [0.0] * len(texts)
    for start in range(0, len(order), params.batch_size):
        places = order[start : start + params.batch_size]
        for place, score in zip(places, model.score([texts[p] for p in places]), strict=True):
            scores[place] = score
    return scores
