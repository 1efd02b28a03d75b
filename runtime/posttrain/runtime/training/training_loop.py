"""One training loop for all methods: exact resume, sealed checkpoints, events, and honest failure."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from posttrain.runtime.distributed import process_group
from posttrain.runtime.distributed.full_weights import load_checkpoint_weights
from posttrain.runtime.distributed.strategy import (
    check_strategy_applied,
    check_strategy_installed,
    full_state_dict,
    split_batch,
    strategy_arguments,
)
from posttrain.runtime.distributed.vllm_rollouts import vllm_engine_arguments
from posttrain.runtime.errors import Interrupted, StepError
from posttrain.runtime.models.model_loader import StartingModel
from posttrain.runtime.models.model_saver import save_trained
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.store import checkpoints
from posttrain.runtime.training import checkpoint_extras, validate_tokenized
from posttrain.runtime.training.anomaly_monitor import AnomalyMonitor
from posttrain.runtime.training.async_checkpoint import AsyncCheckpoint
from posttrain.runtime.training.epoch_sampler import seed_sampler_by_epoch
from posttrain.runtime.training.eval_callback import (
    EvalCallback,
    check_best_checkpoint,
    latest_usable_checkpoint,
)
from posttrain.runtime.training.kernels import kernel_arguments, merge_trl_arguments
from posttrain.runtime.training.lr_schedule import lr_scheduler_arguments
from posttrain.runtime.training.reference_model import sync_sharded_reference
from posttrain.runtime.training.throughput import Throughput
from posttrain.runtime.training.trainer_callback import build_callback
from posttrain.runtime.training.training_params import (
    TrainingParams,
    checkpoint_interval,
    resolve_learning_rate,
)
from posttrain.spec.extension import Schedule

# What holds for every run: a checkpoint counts when we have sealed it, and reports are ours.
_FIXED_ARGUMENTS: dict[str, Any] = {
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


def resolve_schedule(schedule: Callable[[Any, int], Schedule], params: TrainingParams, rows: int) -> Schedule:
    """The steps for the rows that there are; what the compiler could not know fails here."""
    try:
        return schedule(params, rows)
    except ValueError as error:
        raise StepError(str(error), "change the stage's params, or give the stage more rows") from None


class _TrainingComplete(Exception):
    """An earlier attempt took the last step. The trainer has its weights now, divided as they were."""


class TrainingLoop:
    """Runs a trainer from wherever an earlier attempt got to."""

    def __init__(
        self, context: StepContext, params: TrainingParams, planned: Schedule, start: StartingModel
    ) -> None:
        self.context = context
        self.params = params
        self.schedule = planned
        self.starting_model = start
        # Filled by the reward function: what its nodes gave since the last step was logged.
        self.rewards: dict[str, float] = {}
        self.monitor = AnomalyMonitor(context.events, params, planned)
        self.trainer: Any = None
        self._begin_epoch: Callable[[int], None] = lambda _: None
        self.throughput = Throughput(planned.rows_per_step)
        self.eval_callback = EvalCallback(context, start.tokenizer, planned)
        self._async_checkpoint = AsyncCheckpoint(context, params.save_total_limit)
        # The checkpoint of an earlier attempt that this one goes on from.
        self.resume_checkpoint = _find_resume_checkpoint(context)
        self.step = checkpoints.checkpoint_step(self.resume_checkpoint) if self.resume_checkpoint else 0
        if self.resume_checkpoint is not None:
            self.monitor.load_state_dict(checkpoint_extras.load_monitor_state(self.resume_checkpoint))
            self.eval_callback.load_state(self.resume_checkpoint)
        self.stopped = False
        validate_tokenized.check_tokenizer(start.model, start.tokenizer, self.monitor)

    def arguments(self, own: dict[str, Any]) -> dict[str, Any]:
        """The trainer's arguments: ours, the method's own, then what the recipe gives under `trl`."""
        params, seed = self.params, self.context.params["seed"]
        shared: dict[str, Any] = {
            "output_dir": str(self.context.checkpoints),
            "seed": seed,
            "data_seed": seed,
            "learning_rate": self._peak_learning_rate(),
            "weight_decay": params.weight_decay,
            "max_grad_norm": params.max_grad_norm,
            "bf16": params.precision == "bfloat16",
            "fp16": params.precision == "float16",
            "gradient_checkpointing": params.gradient_checkpointing,
            **self._step_arguments(),
        }
        own = split_batch(own, self.context.step.launch.processes)
        own |= strategy_arguments(self.context.step, own)
        if "num_generations" in own:
            own |= vllm_engine_arguments(self.context.step.launch)
        own |= kernel_arguments(params, self.context.step.resources.gpus, self.context.work / "scratch")
        return merge_trl_arguments({**shared, **_FIXED_ARGUMENTS, **own}, self.context.params["trl"])

    def _step_arguments(self) -> dict[str, Any]:
        """The trainer's arguments that follow from how many steps there are."""
        return {
            "max_steps": self.schedule.steps,
            **lr_scheduler_arguments(self.params, self.schedule.steps, self._peak_learning_rate()),
            "save_steps": checkpoint_interval(self.params, self.schedule),
        }

    def _peak_learning_rate(self) -> float:
        return resolve_learning_rate(self.params, self.starting_model.base_key is not None)

    def replan(self, trainer: Any, planned: Schedule) -> None:
        """Go by other steps than were foreseen, since the trainer has made other rows of the rows."""
        self.schedule = planned
        self.monitor.set_schedule(planned)
        self.eval_callback.set_schedule(planned)
        for name, value in self._step_arguments().items():
            setattr(trainer.args, name, self.context.params["trl"].get(name, value))

    def build_trainer(self, trainer: Any, config: Any, data: Any, own: dict[str, Any], **given: Any) -> Any:
        """A trainer of TRL's with its configuration; `given` goes to it beside what all of them take."""
        return trainer(
            model=self.starting_model.model,
            args=config(**self.arguments(own)),
            train_dataset=data,
            processing_class=self.starting_model.tokenizer,
            peft_config=self.starting_model.adapter_config,
            **given,
        )

    def run(self, trainer: Any, data: Any) -> None:
        """Train on `data`, as the trainer has prepared it, and write the product."""
        self.trainer = trainer
        validate_tokenized.validate_tokenized_rows(trainer, data, self.monitor)
        if self.resume_checkpoint is not None:
            checkpoint_extras.restore_reference(self.resume_checkpoint, trainer)
            self.context.events.emit("resumed", step=self.step)
        self._train(trainer)
        self._load_best_weights(trainer)
        self._save_product(trainer)

    def _train(self, trainer: Any) -> None:
        if self.context.step.launch.strategy == "zero3":
            sync_sharded_reference(trainer)
        trainer.add_callback(build_callback(self))
        _remove_printing_callbacks(trainer)
        self._begin_epoch = seed_sampler_by_epoch(trainer)
        try:
            trainer.train(
                resume_from_checkpoint=str(self.resume_checkpoint) if self.resume_checkpoint else None
            )
        except _TrainingComplete:
            pass
        finally:  # a checkpoint counts even when a later step fails
            self._async_checkpoint.wait()
        process_group.barrier()  # the best weights may be in the checkpoint that was sealed last
        if self.stopped and self.step < self.schedule.steps:
            raise Interrupted
        self._check_steps_done(trainer)

    def on_train_begin(self) -> None:
        """Called when the trainer has made everything ready for its first step."""
        check_strategy_applied(self.trainer, self.context.step.launch)
        if self.resume_checkpoint is not None and (
            self.step == self.schedule.steps or self.eval_callback.should_stop
        ):
            raise _TrainingComplete  # asked to go on from the last step, the trainer would take one more

    def on_epoch_begin(self, number: int) -> None:
        """Called before the rows of an epoch are drawn."""
        self._begin_epoch(number)

    def on_step_end(self, step: int, control: Any) -> None:
        """Called after each step, before the trainer writes a checkpoint of it."""
        if self.eval_callback.is_due(step):
            better = self.eval_callback.evaluate(step, self.trainer.model)
            control.should_save = control.should_save or better or self.eval_callback.should_stop
            control.should_training_stop = control.should_training_stop or self.eval_callback.should_stop
        if (
            process_group.all_reduce_any(self.context.stop.requested)
            and step % self.schedule.checkpoint_alignment == 0
        ):
            self.stopped = not self.eval_callback.should_stop
            control.should_save = True
            control.should_training_stop = True

    def _check_steps_done(self, trainer: Any) -> None:
        done = trainer.state.global_step
        if done != self.schedule.steps and not self.eval_callback.should_stop:
            raise StepError(
                f"{done} optimizer steps were done, and {self.schedule.steps} were planned",
                "the data ran out, or a trainer argument under `trl` ends the run early",
            )

    def _load_best_weights(self, trainer: Any) -> None:
        """Put the weights that were measured best in the place of the last ones."""
        best = self.eval_callback.best_checkpoint()
        if best is not None and checkpoints.checkpoint_step(best) != self.step:
            load_checkpoint_weights(trainer, check_best_checkpoint(best), self.context.step.launch.strategy)

    def _save_product(self, trainer: Any) -> None:
        self.context.events.emit("phase", name="saving")
        scratch = self.context.work / "scratch" / "model"
        counts = save_trained(
            trainer.model,
            trainer.processing_class,
            self.starting_model.base_key,
            scratch,
            self.context.out,
            weights=full_state_dict(trainer, self.context.step.launch),
            stored=self.starting_model.stored_dtype,
        )
        self.context.facts.update(steps=self.step, **counts, **self.eval_callback.facts())

    def on_save(self, folder: Path) -> None:
        """Called when the trainer has written a checkpoint, which counts when it is sealed."""
        process_group.barrier()
        self._async_checkpoint.wait()
        moved = checkpoint_extras.synced_reference_weights(self.trainer)
        if process_group.is_rank_zero() and not (folder / checkpoints.MANIFEST).exists():
            checkpoint_extras.save_extras(folder, moved, self.monitor)
            checkpoint_extras.save_launch(folder, self.context.step.launch)
            self.eval_callback.save_state(folder)
            self._async_checkpoint.start_seal(folder, self.eval_callback.best_checkpoint())


def _find_resume_checkpoint(context: StepContext) -> Path | None:
    """The checkpoint to go on from: one process looks, and all go by what it finds."""
    check_strategy_installed(context.step.launch)
    found = latest_usable_checkpoint(context) if process_group.is_rank_zero() else None
    name = process_group.broadcast(found.name if found else None)
    if name is None:
        return None
    checkpoint_extras.check_launch(context.checkpoints / name, context.step.launch)
    return context.checkpoints / name


def _remove_printing_callbacks(trainer: Any) -> None:
    """Take out the callbacks that print."""
    from transformers import PrinterCallback, ProgressCallback

    for kind in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(kind)
