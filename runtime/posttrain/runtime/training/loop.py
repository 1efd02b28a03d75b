"""One training loop for all methods: exact resume, sealed checkpoints, events, and honest failure."""

import math
import shutil
from pathlib import Path
from typing import Any

from posttrain.runtime import checkpoints
from posttrain.runtime.context import Context
from posttrain.runtime.faults import Interrupted, StepFault
from posttrain.runtime.training.params import TrainingParams, checkpoint_interval
from posttrain.spec.extension import Schedule


def arguments(
    context: Context, params: TrainingParams, planned: Schedule, own: dict[str, Any]
) -> dict[str, Any]:
    """The trainer's arguments: ours, the method's own, then what the recipe gives under `trl`."""
    seed = context.params["seed"]
    shared: dict[str, Any] = {
        "output_dir": str(context.checkpoints),
        "seed": seed,
        "data_seed": seed,
        "max_steps": planned.steps,
        "learning_rate": params.learning_rate,
        "lr_scheduler_type": {"constant": "constant_with_warmup"}.get(params.schedule, params.schedule),
        "warmup_steps": math.ceil(params.warmup * planned.steps),
        "weight_decay": params.weight_decay,
        "max_grad_norm": params.clip,
        "bf16": params.precision == "bfloat16",
        "fp16": params.precision == "float16",
        "gradient_checkpointing": params.gradient_checkpointing,
        "logging_strategy": "steps",
        "logging_steps": 1,
        "logging_nan_inf_filter": False,
        "save_strategy": "steps",
        "save_steps": checkpoint_interval(params, planned),
        "save_total_limit": None,  # ours are pruned only after a newer one is sealed
        "report_to": "none",
        "disable_tqdm": True,
        "dataloader_num_workers": 0,
        "dataloader_pin_memory": False,
        "restore_callback_states_from_checkpoint": False,
    }
    return {**shared, **own, **context.params["trl"]}


class Loop:
    """Runs a trainer from wherever an earlier attempt got to."""

    def __init__(self, context: Context, params: TrainingParams, planned: Schedule) -> None:
        self.context = context
        self.params = params
        self.planned = planned
        # Filled by the reward function: what its nodes gave since the last step was logged.
        self.rewards: dict[str, float] = {}
        self.step = 0

    def run(self, trainer: Any) -> None:
        from posttrain.runtime.training.callback import callback_for

        start = checkpoints.latest(self.context.checkpoints)
        self.step = checkpoints.step_of(start) if start else 0
        if start is not None:
            self.context.events.emit("resumed", step=self.step)
        trainer.add_callback(callback_for(self))
        _only_ours(trainer)
        trainer.train(resume_from_checkpoint=str(start) if start else None)
        if self.context.stop.asked and trainer.state.global_step < self.planned.steps:
            raise Interrupted
        self._check_done(trainer)
        self._save(trainer)

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
        if scratch.exists():
            shutil.rmtree(scratch)
        trainer.model.save_pretrained(scratch, safe_serialization=True)
        trainer.processing_class.save_pretrained(scratch)
        # Reports of the trainer's own are no part of the model.
        (scratch / "training_args.bin").unlink(missing_ok=True)
        for path in sorted(scratch.iterdir()):
            shutil.move(path, self.context.out / path.name)
        self.context.facts["steps"] = self.planned.steps

    def checkpointed(self, folder: Path) -> None:
        """Called when the trainer has written a checkpoint: only now does it count."""
        checkpoints.seal(folder)
        self.context.events.emit("checkpoint", step=checkpoints.step_of(folder))
        checkpoints.prune(self.context.checkpoints, self.params.keep_checkpoints)


def _only_ours(trainer: Any) -> None:
    """Take out the callbacks that print."""
    from transformers import PrinterCallback, ProgressCallback

    for kind in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(kind)
