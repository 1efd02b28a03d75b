"""Connects the trainer to the training loop: logs become events, and trainer hooks call the loop."""

from pathlib import Path
from typing import Any, Protocol

from posttrain.runtime.distributed.process_group import all_reduce_mean
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.training.anomaly_monitor import AnomalyMonitor
from posttrain.runtime.training.throughput import Throughput
from posttrain.spec.extension import Schedule

# The reported names of metrics. Metrics that are not listed have the trainer's own name.
_METRIC_NAMES = {
    "grad_norm": "gradient_norm",
    "rewards/chosen": "preference/chosen",
    "rewards/rejected": "preference/rejected",
    "rewards/accuracies": "preference/accuracy",
    "rewards/margins": "preference/margin",
    "accuracy": "preference/accuracy",
    "margin": "preference/margin",
    "mean_reward": "preference/score",
}
# Corrects floating-point error: the trainer counts epochs in fractions.
_EPOCH_ROUNDING = 1e-6
_DROPPED_METRICS = ("epoch", "total_flos", "train_runtime", "train_loss", "num_tokens", "step_time")
_DROPPED_PREFIXES = ("train_", "rewards/", "profiling/")


class LoopProtocol(Protocol):
    """The part of the training loop that the callback uses."""

    context: StepContext
    schedule: Schedule
    monitor: AnomalyMonitor
    rewards: dict[str, float]
    step: int
    throughput: Throughput

    def on_train_begin(self) -> None: ...

    def on_epoch_begin(self, number: int) -> None: ...

    def on_pre_optimizer_step(self, step: int) -> None: ...

    def on_step_end(self, step: int, control: Any) -> None: ...

    def on_save(self, folder: Path) -> None: ...


def build_callback(loop: LoopProtocol) -> Any:
    """Build the callback. Its class is defined here because its base class imports transformers."""
    from transformers import TrainerCallback

    class LoopCallback(TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            loop.throughput.start(state.num_input_tokens_seen)
            loop.on_train_begin()

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            _on_log(loop, state.global_step, dict(logs or {}))

        def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            loop.on_epoch_begin(int(state.epoch + _EPOCH_ROUNDING))

        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            loop.throughput.start_step()

        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            loop.on_pre_optimizer_step(state.global_step)

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            loop.throughput.end_step()
            loop.step = state.global_step
            loop.context.events.progress(state.global_step, loop.schedule.steps, "steps")
            loop.on_step_end(state.global_step, control)

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            loop.on_save(loop.context.checkpoints / f"checkpoint-{state.global_step}")

    return LoopCallback()


def _on_log(loop: LoopProtocol, step: int, logs: dict[str, Any]) -> None:
    values = {
        _METRIC_NAMES.get(name, name): value
        for name, value in logs.items()
        if isinstance(value, int | float) and not _is_dropped(name)
    }
    if not values:
        return
    values |= all_reduce_mean(loop.rewards) if loop.rewards else {}
    loop.rewards = {}
    loop.monitor.check_step(step, values)
    values |= loop.throughput.pop_metrics(logs)
    loop.context.events.emit("metrics", step=step, values=values)


def _is_dropped(name: str) -> bool:
    return name in _DROPPED_METRICS or (name.startswith(_DROPPED_PREFIXES) and name not in _METRIC_NAMES)
