"""The PPO trainer, a subclass of the transformers Trainer.

One module contains policy and value model, so that everything the trainer does to a model applies to both.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posttrain.runtime.distributed.process_group import all_reduce_mean
from posttrain.runtime.ppo import critic_checkpoint
from posttrain.runtime.ppo.ppo_update import PpoUpdater
from posttrain.runtime.trl_compat.composite_checkpoints import composite_checkpoint_trainer
from posttrain.runtime.trl_compat.gradient_clipping import group_clipping_trainer


@dataclass(frozen=True, kw_only=True)
class TrainerSetup:
    """The components of a PPO trainer."""

    actor_critic: Any
    tokenizer: Any
    rows: Any
    arguments: Any
    critic_learning_rate: float
    # Builds the PPO updater; called once the trainer knows its devices and processes.
    make_updater: Callable[[Any], PpoUpdater]


def create_trainer(setup: TrainerSetup) -> Any:
    """Build the trainer. Its class is defined here because its base class imports transformers."""
    import torch

    base: Any = group_clipping_trainer(_checkpointing_trainer(setup))

    class PpoTrainer(base):
        def get_train_dataloader(self) -> Any:
            """Return a loader of micro-batch numbers, which the updater resolves to completions."""
            numbers: Any = range(self.args.max_steps * self.args.gradient_accumulation_steps)
            return torch.utils.data.DataLoader(numbers, batch_size=1, collate_fn=_collate_number)

        def create_optimizer(self, model: Any = None) -> Any:
            """Create the optimizer with separate learning rates for policy and value model."""
            if self.optimizer is None:
                kind, arguments = self.get_optimizer_cls_and_kwargs(self.args, self.actor_critic)
                self.optimizer = kind(_parameter_groups(self, setup.critic_learning_rate), **arguments)
            return self.optimizer

        def compute_loss(self, model: Any, inputs: Any, *_: Any, **__: Any) -> Any:
            loss = self.updater.micro_batch_loss(model, int(inputs["number"]))
            # The trainer averages over micro-batches and processes, but this loss must be summed.
            return loss * self.current_gradient_accumulation_steps * self.accelerator.num_processes

        @property
        def clipping_groups(self) -> Any:
            """Policy and value model, so that a large value loss does not slow the policy."""
            return self.actor_critic.trainable_parameters()

        def on_gradient_norms(self, norms: Sequence[Any]) -> None:
            self.updater.metrics["values/gradient_norm"] = float(norms[1])

        def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
            super().log(logs | all_reduce_mean(self.updater.pop_metrics()), start_time)

        def floating_point_ops(self, inputs: Any) -> int:
            return 0  # the inputs are micro-batch numbers, which have no token count

    return PpoTrainer()


def _checkpointing_trainer(setup: TrainerSetup) -> Any:
    """Build a trainer class that saves and loads the checkpoints of policy and value model."""
    from transformers import Trainer

    base: Any = composite_checkpoint_trainer(Trainer)

    class CheckpointingTrainer(base):
        def __init__(self) -> None:
            super().__init__(
                model=setup.actor_critic,
                args=setup.arguments,
                train_dataset=setup.rows,
                processing_class=setup.tokenizer,
            )
            self.model_accepts_loss_kwargs = False  # the loss is already normalized over the optimizer step
            self.actor_critic = setup.actor_critic
            self.updater = setup.make_updater(self)

        @property
        def main_model(self) -> Any:
            return self.actor_critic.policy

        def save_checkpoint_files(self, folder: Path, state_dict: Any) -> None:
            critic_checkpoint.save_checkpoint(
                folder, self.actor_critic, self.processing_class, state_dict, self.updater.kl_coef
            )

        def load_checkpoint_files(self, folder: Path) -> None:
            critic_checkpoint.load_value_weights(folder, self.actor_critic)

        def load_checkpoint_state(self, folder: Path) -> None:
            self.updater.kl_coef = critic_checkpoint.load_kl_coef(folder)

    return CheckpointingTrainer


def _collate_number(numbers: list[int]) -> dict[str, int]:
    return {"number": numbers[0]}


def _parameter_groups(trainer: Any, critic_learning_rate: float) -> list[dict[str, Any]]:
    """Return the optimizer's parameter groups: policy and value model, each with and without weight decay."""
    actor_critic, args = trainer.actor_critic, trainer.args
    decaying = set(trainer.get_decay_parameter_names(actor_critic))
    groups: list[dict[str, Any]] = []
    for whose, rate in (("policy", args.learning_rate), ("values", critic_learning_rate)):
        named = [
            (name, weight)
            for name, weight in actor_critic.named_parameters()
            if weight.requires_grad and name.startswith("policy.") == (whose == "policy")
        ]
        for decay in (True, False):
            weights = [weight for name, weight in named if (name in decaying) == decay]
            groups.append(
                {"params": weights, "lr": rate, "weight_decay": args.weight_decay if decay else 0.0}
            )
    return [group for group in groups if group["params"]]
