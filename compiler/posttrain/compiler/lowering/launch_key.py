"""The parts of a training step's key that name its division into micro-batches and processes.

The weights after training do not depend on this division, except under the conditions of `LAUNCH_RULES`. Only
then are the micro-batch size and the number of processes in the key. `perf/batch_independence.md` has the
measured differences.
"""

from collections.abc import Callable, Mapping
from typing import Any

from posttrain.compiler.checks.trl_args import config_arguments
from posttrain.compiler.stages.train_stage import CheckedTraining
from posttrain.spec.adapter_declaration import Adapter
from posttrain.spec.architectures.model_shapes import Shape
from posttrain.spec.plan import Launch
from posttrain.spec.record import record

MICRO_BATCH_SIZE, PROCESSES = "micro_batch_size", "processes"

# Arguments of TRL's configurations with which a row or a token adds the same gradient in any micro-batch.
# Any other argument under `trl` puts the launch in the key.
INDEPENDENT_TRL_ARGUMENTS = frozenset(
    (
        "activation_offloading",
        "adam_beta1",
        "adam_beta2",
        "adam_epsilon",
        "chat_template_kwargs",
        "dataloader_num_workers",
        "dataloader_persistent_workers",
        "dataloader_pin_memory",
        "dataloader_prefetch_factor",
        "ddp_timeout",
        "disable_dropout",  # see `_has_dropout`
        "discopop_tau",
        "f_alpha_divergence_coef",
        "f_divergence_type",
        "generation_kwargs",
        "gradient_checkpointing_kwargs",
        "ld_alpha",
        "log_completions",
        "num_completions_to_print",
        "optim",  # see `_is_updated_in_backward`
        "optim_args",
        "optim_target_modules",
        "pad_to_multiple_of",
        "precompute_ref_batch_size",
        "precompute_ref_log_probs",
        "sapo_temperature_neg",
        "sapo_temperature_pos",
        "tf32",
        "truncation_mode",
        "vespo_k_neg",
        "vespo_k_pos",
        "vespo_lambda_neg",
        "vespo_lambda_pos",
    )
)


@record(kw_only=True)
class TrainingOnLaunch:
    """A training step with its launch."""

    training: CheckedTraining
    adapter: Adapter | None
    # None if the architecture of the model is not known before the run.
    shape: Shape | None
    # Whether the recipe creates the model, with the default configuration of its architecture.
    from_scratch: bool
    launch: Launch

    @property
    def trl(self) -> Mapping[str, Any]:
        return self.training.stage.trl


@record
class LaunchRule:
    """A condition under which the weights depend on the launch, and the parts of the launch that matter."""

    reason: str
    applies: Callable[[TrainingOnLaunch], bool]
    parts: tuple[str, ...]


def _keeps_dropout(step: TrainingOnLaunch) -> bool:
    """Whether the method trains with dropout. TRL disables it in methods that compare log-probabilities."""
    kind = step.training.method.trl
    default = config_arguments(kind).get("disable_dropout", {}).get("default", False) if kind else False
    return not step.trl.get("disable_dropout", default)


def _has_dropout(step: TrainingOnLaunch) -> bool:
    """Whether the model has dropout, or may have: the architecture is unknown."""
    lora = step.adapter is not None and step.adapter.dropout > 0
    model = step.shape is None or step.shape.architecture.dropout
    return (lora or model) and _keeps_dropout(step)


def _has_router_loss(step: TrainingOnLaunch) -> bool:
    """Whether the configuration of the model may turn on the auxiliary loss of its router."""
    return step.shape is not None and step.shape.experts > 0 and not step.from_scratch


def _is_updated_in_backward(step: TrainingOnLaunch) -> bool:
    return str(step.trl.get("optim", "")).endswith(("lomo", "layerwise"))


LAUNCH_RULES = (
    LaunchRule(
        "the loss is not a sum over the rows or tokens of the step",
        lambda step: step.training.method.batch_level_loss(step.training.params),
        (MICRO_BATCH_SIZE, PROCESSES),
    ),
    LaunchRule(
        "each process samples its completions with its own random state",
        lambda step: step.training.method.needs_reward,
        (PROCESSES,),
    ),
    LaunchRule(
        "each micro-batch draws its own dropout mask, in each process with its own random state",
        _has_dropout,
        (MICRO_BATCH_SIZE, PROCESSES),
    ),
    LaunchRule(
        "the router's auxiliary loss compares the tokens of a micro-batch",
        _has_router_loss,
        (MICRO_BATCH_SIZE, PROCESSES),
    ),
    LaunchRule(
        "accelerate repeats packed sequences to fill the last micro-batches of all processes",
        lambda step: getattr(step.training.params, "packing", False) and step.launch.processes > 1,
        (MICRO_BATCH_SIZE, PROCESSES),
    ),
    LaunchRule(
        "the optimizer updates the weights during the backward pass of each micro-batch",
        _is_updated_in_backward,
        (MICRO_BATCH_SIZE, PROCESSES),
    ),
    LaunchRule(
        "a TRL argument can change how micro-batches are filled, or what their loss compares",
        lambda step: bool(step.trl.keys() - INDEPENDENT_TRL_ARGUMENTS),
        (MICRO_BATCH_SIZE, PROCESSES),
    ),
)


def launch_key_parts(step: TrainingOnLaunch) -> frozenset[str]:
    """Return the parts of the launch that belong in the key."""
    return frozenset(part for rule in LAUNCH_RULES if rule.applies(step) for part in rule.parts)
