"""The verb `train`, and evals while it goes on."""

from typing import Any, Literal

from posttrain.spec.declaration_fields import Declaration, field
from posttrain.spec.field_types import Name
from posttrain.spec.hardware import Placement
from posttrain.spec.inference import PROMPTS_DESCRIPTION, PromptFormat
from posttrain.spec.model_declaration import Adapter
from posttrain.spec.stage import Stage


class InLoopEval(Declaration):
    """Evals of a model while it is trained, and what follows from them."""

    eval_steps: int = field(
        ge=1,
        description="Optimizer steps between evaluations, rounded up to a step from which the method resumes"
        " exactly. There is an evaluation after the last step too.",
    )
    evals: list[Name] = field(
        min_length=1,
        description="Eval stages to run: their data, reward, sampling and metrics, on this model.",
    )
    metric_for_best_model: str | None = field(
        default=None,
        description="EVAL.METRIC that `keep: best` and early stopping compare.",
    )
    greater_is_better: bool = field(
        default=True, description="Whether a higher value of the metric is better."
    )
    early_stopping_threshold: float = field(
        default=0.0, ge=0, description="An evaluation counts as better only if it improves by more than this."
    )
    keep: Literal["last", "best"] = field(
        default="last",
        description="The weights of the stage's product: those of the last step, or of the best evaluation.",
    )
    early_stopping_patience: int | None = field(
        default=None, ge=1, description="Stop after this many evaluations in a row without a better one."
    )


class Train(Stage):
    """Train a model by a method."""

    train: str = field(description="The method: sft, dpo, grpo and so on.")
    model: str = field(description="A model, or the earlier stage whose product is trained further.")
    data: str = field(description="A dataset, or one of its parts as NAME.PART.")
    reward: str | None = field(default=None, description="The reward graph, for methods that need one.")
    environment: str | None = field(
        default=None, description="The environment to act in, over several turns, for methods that can."
    )
    reference: str | None = field(
        default=None,
        description="The frozen model compared with; the starting weights if not given.",
    )
    prompts: PromptFormat = field(default="auto", description=PROMPTS_DESCRIPTION)
    adapter: Adapter | None = field(default=None, description="What is trained; else the model's.")
    placement: Literal["auto"] | Placement = field(
        default="auto", description="How it lies on the target; auto lets the compiler choose."
    )
    params: dict[str, Any] = field(default_factory=dict[str, Any], description="The method's parameters.")
    evaluate: InLoopEval | None = field(
        default=None, description="Evals of the model while it is trained, and what follows from them."
    )
    trl: dict[str, Any] = field(
        default_factory=dict[str, Any],
        description="Further arguments of TRL's own, passed as they are.",
    )
