"""The score of a reward model: a trained scorer reads the prompt with the completion."""

from collections.abc import Sequence
from typing import Literal

from posttrain.runtime.errors import StepError
from posttrain.runtime.rewards.engine.batch import Batch, Operands, OpResult
from posttrain.runtime.rewards.engine.reward_model_inference import RewardModelScorer, load_scorer
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import Operand, Params, RewardOp


class RewardModelParams(Params):
    model: str = field(
        description="The model that scores: a stage that trains a `reward_model`, or a declared scorer."
    )
    prompts: Literal["auto", "chat", "plain"] = field(
        default="auto",
        description="What the model reads: prompt and text as turns of a conversation (`chat`), or one after"
        " the other (`plain`); `auto` takes turns where its tokenizer has a chat template.",
    )
    batch_size: int = field(default=16, ge=1, description="Texts that it reads at once.")


EXTENSION = RewardOp(
    name="reward_model",
    summary="A reward model's score of a text: any number; it abstains when there is no text, and"
    " on what is longer than it reads. `clip` and `normalize` bring scores into a range.",
    params=RewardModelParams,
    operands={
        "of": Operand(type="text", description="The completion that is scored."),
        "prompt": Operand(
            required=False,
            description="What it replies to, as text or messages; without it the text is scored alone.",
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
            f"the model `{params.model}` is not at hand: a recipe's models are made when it runs",
            "run a stage that scores by this reward; its record has every node's values",
        )
    prompts = operands.get("prompt", [None] * batch.count)
    values: list[float | None] = [None] * batch.count
    reasons: list[str | None] = ["there is no text"] * batch.count
    rows = [row for row in range(batch.count) if operands["of"][row] is not None]
    model = load_scorer(folder)
    read = [model.tokenize(prompts[row], operands["of"][row], params.prompts) for row in rows]
    short = [place for place, tokens in enumerate(read) if len(tokens) <= model.max_length]
    for row, tokens in zip(rows, read, strict=True):
        reasons[row] = f"{len(tokens)} tokens, and the model reads {model.max_length}"
    for place, score in zip(
        short, _score_batches(model, [read[place] for place in short], params), strict=True
    ):
        values[rows[place]], reasons[rows[place]] = score, None
    return OpResult(values=values, reasons=reasons)


def _score_batches(
    model: RewardModelScorer, texts: Sequence[Sequence[int]], params: RewardModelParams
) -> list[float]:
    """The score of each text. Texts of like length are read together, so that little is filled up."""
    order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
    found = [0.0] * len(texts)
    for start in range(0, len(order), params.batch_size):
        places = order[start : start + params.batch_size]
        for place, score in zip(places, model.score([texts[p] for p in places]), strict=True):
            found[place] = score
    return found
