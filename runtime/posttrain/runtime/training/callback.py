"""Turns what the trainer reports into events, and the wish to stop into a checkpoint."""

from pathlib import Path
from typing import Any, Protocol

from posttrain.runtime.context import Context
from posttrain.runtime.launch.group import averaged
from posttrain.runtime.training.costs import Costs
from posttrain.runtime.training.watch import Watch
from posttrain.spec.extension import Schedule

# Names of figures as users read them; what is not here keeps the trainer's own name.
_NAMES = {
    "grad_norm": "gradient_norm",
    "rewards/chosen": "preference/chosen",
    "rewards/rejected": "preference/rejected",
    "rewards/accuracies": "preference/accuracy",
    "rewards/margins": "preference/margin",
    "accuracy": "preference/accuracy",
    "margin": "preference/margin",
    "mean_reward": "preference/score",
}
# The trainer counts epochs in fractions.
_ROUNDING = 1e-6
_DROPPED = ("epoch", "total_flos", "train_runtime", "train_loss", "num_tokens", "step_time")
_DROPPED_PREFIXES = ("train_", "rewards/", "profiling/")


class Told(Protocol):
    """What a training loop lets the callback see and keep."""

    context: Context
    planned: Schedule
    watch: Watch
    rewards: dict[str, float]
    step: int
    costs: Costs

    def begun(self) -> None: ...

    def epoch(self, number: int) -> None: ...

    def stepped(self, step: int, control: Any) -> None: ...

    def checkpointed(self, folder: Path) -> None: ...


def callback_for(loop: Told) -> Any:
    """The callback object; its class needs transformers, so it is made here."""
    from transformers import TrainerCallback

    class Reports(TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            loop.begun()

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            _on_log(loop, state.global_step, dict(logs or {}))

        def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            loop.epoch(int(state.epoch + _ROUNDING))

        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            loop.costs.begin()

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            loop.costs.end()
            loop.step = state.global_step
            loop.context.events.progress(state.global_step, loop.planned.steps, "steps")
            loop.stepped(state.global_step, control)

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            loop.checkpointed(loop.context.checkpoints / f"checkpoint-{state.global_step}")

    return Reports()


def _on_log(loop: Told, step: int, logs: dict[str, Any]) -> None:
    values = {
        _NAMES.get(name, name): value
        for name, value in logs.items()
        if isinstance(value, int | float) and not _dropped(name)
    }
    if not values:
        return
    values |= averaged(loop.rewards) if loop.rewards else {}
    loop.rewards = {}
    loop.watch.step(step, values)
    values |= loop.costs.figures(logs)
    loop.context.events.emit("metrics", step=step, values=values)


def _dropped(name: str) -> bool:
    return name in _DROPPED or (name.startswith(_DROPPED_PREFIXES) and name not in _NAMES)
