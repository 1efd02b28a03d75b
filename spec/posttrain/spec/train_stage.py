"""The verb `train`, and evals during training."""

from typing import Any, Literal

from pydantic import Field

from posttrain.spec.adapter_declaration import Adapter
from posttrain.spec.declaration_fields import Declaration
from posttrain.spec.field_types import Items, Name
from posttrain.spec.hardware import Placement
from posttrain.spec.inference import PROMPTS_DESCRIPTION, TEMPLATE_KWARGS_DESCRIPTION, PromptFormat
from posttrain.spec.stage import Stage


class InLoopEval(Declaration):
    """Evaluation during training: on held-out rows, by evals, or both; early stopping, and selection of the
    best weights."""

    eval_steps: int = Field(
        ge=1,
        description="Optimizer steps between evaluations, rounded up to a step at which the method can resume"
        " exactly. The last step is always followed by an evaluation.",
    )
    data: str | None = Field(
        default=None,
        description="Held-out rows with the columns of the training data: a dataset, or one of its parts as"
        " NAME.PART. They give the loss and the other metrics of the method, such as eval_loss, without"
        " generation. For methods that train on rows.",
    )
    evals: Items[Name] = Field(
        default=(),
        description="Eval stages to run on this model. Their data, reward, sampling and metrics apply.",
    )
    metric_for_best_model: str | None = Field(
        default=None,
        description="Metric that `keep: best` and early stopping compare: eval_loss or another metric on"
        " `data`, or EVAL.METRIC of an eval in `evals`.",
    )
    greater_is_better: bool | None = Field(
        default=None,
        description="Whether higher values of the metric are better. Default: false for eval_loss and"
        " eval_perplexity, true for all other metrics.",
    )
    early_stopping_threshold: float = Field(
        default=0.0,
        ge=0,
        description="Minimum improvement: an evaluation counts as better only if it improves by more.",
    )
    keep: Literal["last", "best"] = Field(
        default="last",
        description="Weights that the stage saves: those of the last step, or of the best evaluation.",
    )
    early_stopping_patience: int | None = Field(
        default=None,
        ge=1,
        description="Stop after this many consecutive evaluations without improvement. Default: never.",
    )


class Train(Stage):
    """Train a model with one of the training methods."""

    train: str = Field(description="Training method: sft, dpo, grpo and others.")
    model: str = Field(description="Model to train, or an earlier stage whose model is trained further.")
    data: str = Field(description="Training data: a dataset, or one of its parts as NAME.PART.")
    reward: str | None = Field(default=None, description="Reward graph, for methods that need one.")
    environment: str | None = Field(
        default=None, description="Environment for multi-turn rollouts, for methods that support it."
    )
    reference: str | None = Field(
        default=None,
        description="Frozen reference model, for methods that use one. Default: the starting weights.",
    )
    prompts: PromptFormat = Field(default="auto", description=PROMPTS_DESCRIPTION)
    chat_template_kwargs: dict[str, Any] = Field(
        default_factory=dict[str, Any], description=TEMPLATE_KWARGS_DESCRIPTION
    )
    adapter: Adapter | None = Field(
        default=None, description="Weights to train: an adapter or all. Default: the model's `adapter`."
    )
    placement: Literal["auto"] | Placement = Field(
        default="auto", description="Layout on the target machine. With auto the compiler chooses it."
    )
    params: dict[str, Any] = Field(
        default_factory=dict[str, Any], description="Hyperparameters of the method."
    )
    evaluate: InLoopEval | None = Field(
        default=None,
        description="Evaluation during training, early stopping, and selection of the best weights.",
    )
    trl: dict[str, Any] = Field(
        default_factory=dict[str, Any],
        description="Additional TRL arguments, passed unchanged.",
    )
