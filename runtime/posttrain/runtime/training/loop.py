"""One training loop for all methods: exact resume, sealed checkpoints, events, and honest failure."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from posttrain.runtime import checkpoints
from posttrain.runtime.context import Context
from posttrain.runtime.faults import Interrupted, StepFault
from posttrain.runtime.models.load import Start
from posttrain.runtime.models.save import save_trained
from posttrain.runtime.training import fitting, kept
from posttrain.runtime.training.callback import callback_for
from posttrain.runtime.training.order import steady
from posttrain.runtime.training.params import TrainingParams, checkpoint_interval, learning_rate
from posttrain.runtime.training.watch import Watch
from posttrain.spec.extension import Schedule

# What holds for every run: a checkpoint counts when we have sealed it, and reports are ours.
_ALWAYS: dict[str, Any] = {
    "logging_strategy": "steps",
    "logging_steps": 1,
    "logging_nan_inf_filter": False,
    "save_strategy": "steps",
    "save_total_limit": None,  # ours are pruned only after a newer one is sealed
    "report_to": "none",
    "disable_tqdm": True,
    "dataloader_num_workers": 0,
    "dataloader_pin_memory": False,
    "restore_callback_states_from_checkpoint": False,
}


def planned_for(schedule: Callable[[Any, int], Schedule], params: TrainingParams, rows: int) -> Schedule:
    """The steps for the rows that there are; what the compiler could not know fails here."""
    try:
        return schedule(params, rows)
    except ValueError as error:
        raise StepFault(str(error), "change the stage's params, or give the stage more rows") from None


class Loop:
    """Runs a trainer from wherever an earlier attempt got to."""

    def __init__(self, context: Context, params: TrainingParams, planned: Schedule, start: Start) -> None:
        self.context = context
        self.params = params
        self.planned = planned
        self.start = start
        # Filled by the reward function: what its nodes gave since the last step was logged.
        self.rewards: dict[str, float] = {}
        self.watch = Watch(context.events, params, planned)
        self.trainer: Any = None
        # The checkpoint of an earlier attempt that this one goes on from.
        self.found = checkpoints.latest(context.checkpoints)
        self.step = checkpoints.step_of(self.found) if self.found else 0
        if self.found is not None:
            self.watch.restore(kept.seen(self.found))
        fitting.check_tokens(start.model, start.tokenizer, self.watch)

    def arguments(self, own: dict[str, Any]) -> dict[str, Any]:
        """The trainer's arguments: ours, the method's own, then what the recipe gives under `trl`."""
        params, planned, seed = self.params, self.planned, self.context.params["seed"]
        schedule = {"constant": "constant_with_warmup"}.get(params.schedule, params.schedule)
        shared: dict[str, Any] = {
            "output_dir": str(self.context.checkpoints),
            "seed": seed,
            "data_seed": seed,
            "max_steps": planned.steps,
            "learning_rate": learning_rate(params, self.start.base is not None),
            "lr_scheduler_type": schedule,
            "warmup_steps": math.ceil(params.warmup * planned.steps),
            "weight_decay": params.weight_decay,
            "max_grad_norm": params.clip,
            "bf16": params.precision == "bfloat16",
            "fp16": params.precision == "float16",
            "gradient_checkpointing": params.gradient_checkpointing,
            "save_steps": checkpoint_interval(params, planned),
        }
        return {**shared, **_ALWAYS, **own, **self.context.params["trl"]}

    def run(self, trainer: Any, data: Any) -> None:
        """Train on `data`, as the trainer has prepared it, and write the product."""
        self.trainer = trainer
        fitting.check_rows(trainer, len(data), self.watch)
        if self.found is not None:
            kept.restore_reference(self.found, trainer)
            self.context.events.emit("resumed", step=self.step)
        if self.found is not None and self.step == self.planned.steps:
            # Asked to go on from the last step, the trainer would take one more.
            trainer._load_from_checkpoint(str(self.found))
        else:
            self._train(trainer)
        self._save(trainer)

    def _train(self, trainer: Any) -> None:
        trainer.add_callback(callback_for(self))
        _only_ours(trainer)
        steady(trainer)
        trainer.train(resume_from_checkpoint=str(self.found) if self.found else None)
        if self.context.stop.asked and trainer.state.global_step < self.planned.steps:
            raise Interrupted
        self._check_done(trainer)

    def _check_done(self, trainer: Any) -> None:
        done = trainer.state.global_step
        if done != self.planned.steps:
            raise StepFault(
                f"{done} optimizer steps were done, and {self.planned.steps} were planned",
                "the data ran out, or a trainer argument under `trl` ends the run early",
            )

    def _save(self, trainer: Any) -> None:
        self.context.events.emit("phase", name="saving")
        scratch = self.context.work / "scratch" / "model"
        counts = save_trained(
            trainer.model, trainer.processing_class, self.start.base, scratch, self.context.out
        )
        self.context.facts.update(steps=self.planned.steps, **counts)

    def checkpointed(self, folder: Path) -> None:
        """Called when the trainer has written a checkpoint: only now does it count."""
        kept.keep(folder, self.trainer, self.watch)
        checkpoints.seal(folder)
        self.context.events.emit("checkpoint", step=checkpoints.step_of(folder))
        checkpoints.prune(self.context.checkpoints, self.params.keep_checkpoints)


def _only_ours(trainer: Any) -> None:
    """Take out the callbacks that print."""
    from transformers import PrinterCallback, ProgressCallback

    for kind in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(kind)
