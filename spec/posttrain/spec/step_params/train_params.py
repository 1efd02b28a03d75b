"""Parameters of a training step."""

from collections.abc import Mapping
from typing import Literal

from posttrain.spec.canonical_json import Json
from posttrain.spec.document import Document
from posttrain.spec.inference import PromptFormat
from posttrain.spec.step_params.adapter_options import AdapterOptions
from posttrain.spec.step_params.eval_params import EvalStepParams
from posttrain.spec.step_params.generation_params import EndpointAccess
from posttrain.spec.step_params.reward_params import EnvironmentParams, RewardGraphParams
from posttrain.spec.step_params.step_parameters import StepParams, omitted, omitted_if_empty

# The folder of a product, and of a checkpoint, with the evaluation of its weights on held-out rows.
EVALUATION_DIR = "evaluation"
EVALUATED_ROWS = "rows.parquet"
# The role of the held-out rows among the inputs of a training step.
HELD_OUT_ROLE = "held_out"


class HeldOutMetric(Document):
    """A metric on held-out rows."""

    # None: not a mean over rows.
    kind: Literal["mean", "rate"] | None


class InLoopEvalOptions(Document):
    """Evals during training, early stopping, and selection of the best weights."""

    eval_steps: int
    evals: Mapping[str, EvalStepParams]
    # The metrics on the held-out rows, if the stage has such rows.
    metrics: Mapping[str, HeldOutMetric] | None = omitted()
    metric_for_best_model: str | None
    greater_is_better: bool
    early_stopping_threshold: float
    early_stopping_patience: int | None
    keep: Literal["last", "best"]


class TrainStepParams(StepParams):
    """Parameters of a training step. The method's own class validates `params`."""

    method: str
    params: Mapping[str, Json]
    # Additional TRL arguments.
    trl: Mapping[str, Json]
    prompts: PromptFormat
    # Arguments of the chat template besides messages and tools, such as enable_thinking.
    chat_template_kwargs: Mapping[str, Json] = omitted_if_empty({})
    # None trains all weights.
    adapter: AdapterOptions | None
    reward: RewardGraphParams | None
    seed: int
    # The data type for the training of all weights, if it can differ from the stored type.
    weights_dtype: Literal["float32"] | None = omitted()
    access: Mapping[str, EndpointAccess] | None = omitted()
    environment: EnvironmentParams | None = omitted()
    # Parameters of the environment that do not affect the episodes.
    hosting: Mapping[str, Json] | None = omitted()
    evaluate: InLoopEvalOptions | None = omitted()
    # Set for vLLM: another engine generates other completions.
    engine: Literal["vllm"] | None = omitted()
