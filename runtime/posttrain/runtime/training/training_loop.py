"""The training loop of all methods: exact resume, sealed checkpoints, events, and checks of the run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from posttrain.runtime.distributed import process_group
from posttrain.runtime.distributed.strategy import (
    check_strategy_applied,
    check_strategy_installed,
    full_state_dict,
    split_batch,
    strategy_arguments,
)
from posttrain.runtime.distributed.vllm_rollouts import vllm_engine_arguments
from posttrain.runtime.errors import Interrupted, StepError
from posttrain.runtime.models import adapter_conversion
from posttrain.runtime.models.model_loader import StartingModel
from posttrain.runtime.models.model_saver import save_trained
from posttrain.runtime.models.parameter_freezing import check_gradients
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.store import checkpoints
from posttrain.runtime.training import checkpoint_extras, validate_tokenized
from posttrain.runtime.training.anomaly_monitor import AnomalyMonitor
from posttrain.runtime.training.async_checkpoint import AsyncCheckpoint
from posttrain.runtime.training.eval_callback import (
    EvalCallback,
    check_best_checkpoint,
    latest_usable_checkpoint,
)
from posttrain.runtime.training.kernels import kernel_arguments, merge_trl_arguments
from posttrain.runtime.training.loraplus import loraplus_trainer
from posttrain.runtime.training.lr_schedule import lr_scheduler_arguments
from posttrain.runtime.training.row_isolation import check_padding, check_row_isolation
from posttrain.runtime.training.row_preparation import HELD_OUT_NAME, TRAINING_NAME, PreparedRows
from posttrain.runtime.training.step_arithmetic import (
    checkpoint_interval,
    evaluation_arguments,
    resolve_learning_rate,
)
from posttrain.runtime.training.streamed_rows import StreamedRows
from posttrain.runtime.training.throughput import Throughput
from posttrain.runtime.training.trainer_callback import build_callback
from posttrain.runtime.training.trainer_dataset import rejected_rows_named
from posttrain.runtime.training.training_params import PromptParams, RowParams, TrainingParams
from posttrain.runtime.trl_compat.checkpoint_weights import load_checkpoint_weights
from posttrain.runtime.trl_compat.epoch_sampler import seed_sampler_by_epoch
from posttrain.runtime.trl_compat.last_step_resume import TrainingComplete, run_trainer
from posttrain.runtime.trl_compat.row_metrics import recording_trainer
from posttrain.runtime.trl_compat.row_weighting import row_weighting_trainer
from posttrain.runtime.trl_compat.sharded_reference_sync import sync_sharded_reference
from posttrain.runtime.trl_compat.stream_dataloader import train_on_stream
from posttrain.runtime.trl_compat.token_wrapper_attributes import expose_wrapped_attributes
from posttrain.spec.extension import Schedule
from posttrain.spec.step_params.train_params import TrainStepParams

# Trainer arguments of every run. Our loop seals and prunes the checkpoints, and reports the metrics.
_FIXED_ARGUMENTS: dict[str, Any] = {
    "logging_strategy": "steps",
    "logging_steps": 1,
    "logging_nan_inf_filter": False,
    "save_strategy": "steps",
    "save_total_limit": None,  # our loop prunes, and only after it has sealed a newer checkpoint
    "report_to": "none",
    "disable_tqdm": True,
    "dataloader_num_workers": 0,
    "dataloader_pin_memory": False,
    "restore_callback_states_from_checkpoint": False,
}


def resolve_schedule(schedule: Callable[[Any, int], Schedule], params: TrainingParams, rows: int) -> Schedule:
    """Return the schedule for the actual number of rows, which the compiler may not have known."""
    try:
        return schedule(params, rows)
    except ValueError as error:
        raise StepError(str(error), "change the stage's params, or add rows to its dataset") from None


class TrainingLoop:
    """Runs a trainer from its start, or from the checkpoint of an earlier attempt."""

    def __init__(
        self,
        context: StepContext[TrainStepParams],
        params: TrainingParams,
        schedule: Schedule,
        start: StartingModel,
    ) -> None:
        self.context = context
        self.params = params
        self.schedule = schedule
        self.starting_model = start
        # Filled by the reward function: the statistics of the reward nodes since the last logged step.
        self.rewards: dict[str, float] = {}
        self.monitor = AnomalyMonitor(context.events, params, schedule)
        self.trainer: Any = None
        self._begin_epoch: Callable[[int], None] = lambda _: None
        self.throughput = Throughput(schedule.rows_per_step)
        self.eval_callback = EvalCallback(context, start.tokenizer, schedule)
        self._async_checkpoint = AsyncCheckpoint(context, params.save_total_limit)
        # The checkpoint of an earlier attempt to resume from, if any.
        self.resume_checkpoint = _find_resume_checkpoint(context)
        self.step = checkpoints.checkpoint_step(self.resume_checkpoint) if self.resume_checkpoint else 0
        if self.resume_checkpoint is not None:
            self.monitor.load_state_dict(checkpoint_extras.load_monitor_state(self.resume_checkpoint))
            self.eval_callback.load_state(self.resume_checkpoint)
        self.stopped = False
        # The rows of a streamed dataset, which replace those that the trainer was built with.
        self.stream: StreamedRows | None = None
        self._initial_matrices: dict[str, Any] | None = None
        if start.base_key is not None:
            expose_wrapped_attributes()
        validate_tokenized.check_tokenizer(start.model, start.tokenizer, self.monitor)

    def arguments(self, own: dict[str, Any]) -> dict[str, Any]:
        """Return the trainer arguments: shared ones, then `own` of the method, then the recipe's `trl`."""
        params, seed = self.params, self.context.params.seed
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
        return merge_trl_arguments({**shared, **_FIXED_ARGUMENTS, **own}, self.context.params.trl)

    def _step_arguments(self) -> dict[str, Any]:
        """Return the trainer arguments that depend on the number of steps."""
        return {
            "max_steps": self.schedule.steps,
            **lr_scheduler_arguments(self.params, self.schedule.steps, self._peak_learning_rate()),
            "save_steps": checkpoint_interval(self.params, self.schedule),
        }

    def _peak_learning_rate(self) -> float:
        return resolve_learning_rate(self.params, self.starting_model.base_key is not None)

    def replan(self, trainer: Any, schedule: Schedule) -> None:
        """Replace the schedule after the trainer has packed the rows into fewer sequences."""
        self.schedule = schedule
        self.monitor.set_schedule(schedule)
        self.eval_callback.set_schedule(schedule)
        for name, value in self._step_arguments().items():
            setattr(trainer.args, name, self.context.params.trl.get(name, value))

    def build_trainer(
        self,
        trainer: Any,
        config: Any,
        rows: PreparedRows,
        own: dict[str, Any],
        held_out: PreparedRows | None = None,
        tokenize: Callable[[PreparedRows, str, Any], Any] | None = None,
        **extra: Any,
    ) -> Any:
        """Build a TRL trainer and its configuration; `extra` are further arguments of this trainer.

        `held_out` are rows to evaluate. `tokenize` makes the dataset of the trainer from rows, their name in
        errors and the configuration. Without it, the trainer tokenizes the rows.
        """
        kind = row_weighting_trainer(trainer) if isinstance(self.params, RowParams) else trainer
        adapter = self.context.params.adapter
        if adapter is not None and adapter.loraplus_lr_ratio is not None:
            kind = loraplus_trainer(kind, adapter.loraplus_lr_ratio)
        arguments = self.arguments(own)
        if held_out is not None:
            kind = recording_trainer(kind)
            arguments |= evaluation_arguments(self.context, self.params, arguments)
        args = config(**arguments)
        tables = {TRAINING_NAME: rows} if held_out is None else {TRAINING_NAME: rows, HELD_OUT_NAME: held_out}
        data = {
            name: one.data if tokenize is None else tokenize(one, name, args) for name, one in tables.items()
        }
        if held_out is not None:
            extra = {**extra, "eval_dataset": data[HELD_OUT_NAME]}
        template = self.starting_model.tokenizer.chat_template
        with rejected_rows_named({name: one.data for name, one in tables.items()}, template):
            built = kind(
                model=self.starting_model.model,
                args=args,
                train_dataset=data[TRAINING_NAME],
                processing_class=self.starting_model.tokenizer,
                peft_config=self.starting_model.adapter_config,
                **extra,
            )
        if held_out is not None:
            validate_tokenized.validate_held_out_rows(built, len(held_out))
        return built

    def run(self, trainer: Any, rows: PreparedRows) -> None:
        """Validate the rows, train, and save the product."""
        self.trainer = trainer
        if self._changes_base():
            self._initial_matrices = adapter_conversion.initial_matrices(trainer.model)
        validate_tokenized.validate_tokenized_rows(trainer, rows.statistics, self.monitor)
        if self.resume_checkpoint is not None:
            checkpoint_extras.restore_reference(self.resume_checkpoint, trainer)
            self.context.events.emit("resumed", step=self.step)
        self._train(trainer)
        self._load_best_weights(trainer)
        self._save_product(trainer)

    def _changes_base(self) -> bool:
        """Whether a new adapter has changed the base weights that its product refers to."""
        adapter, new = self.context.params.adapter, self.starting_model.adapter_config is not None
        return adapter is not None and adapter.changes_base and new

    def _train(self, trainer: Any) -> None:
        if self.context.step.launch.strategy == "zero3":
            sync_sharded_reference(trainer)
        trainer.add_callback(build_callback(self))
        _remove_printing_callbacks(trainer)
        self._begin_epoch = seed_sampler_by_epoch(trainer)
        if self.stream is not None:
            train_on_stream(trainer, self.stream)
        try:
            run_trainer(trainer, self.resume_checkpoint)
        finally:  # finish the pending checkpoint even if a later step has failed
            self._async_checkpoint.wait()
            if self.stream is not None:
                self.stream.end_prefetch()
        process_group.barrier()  # rank 0 may have sealed the checkpoint with the best weights just now
        if self.stopped and self.step < self.schedule.steps:
            raise Interrupted
        self._check_steps_done(trainer)

    def on_train_begin(self) -> None:
        """Called when the trainer is ready for its first step."""
        check_strategy_applied(self.trainer, self.context.step.launch)
        if getattr(self.trainer, "padding_free", False):
            check_row_isolation(self.trainer)
        if isinstance(self.params, PromptParams):
            check_padding(self.trainer)
        if self.resume_checkpoint is not None and (
            self.step == self.schedule.steps or self.eval_callback.should_stop
        ):
            raise TrainingComplete
        if process_group.all_reduce_any(self.context.stop.requested):
            raise Interrupted  # while the model was loading: there is nothing to save

    def on_pre_optimizer_step(self, step: int) -> None:
        """Called after the backward passes of a step; `step` counts the steps before it."""
        if step == 0 and self.context.step.launch.strategy in ("single", "ddp"):
            check_gradients(self.trainer.model)

    def on_epoch_begin(self, number: int) -> None:
        """Called before the sampler draws the order of an epoch."""
        self._begin_epoch(number)

    def on_step_end(self, step: int, control: Any) -> None:
        """Called after each step, before the trainer saves its checkpoint."""
        if self.eval_callback.is_due(step):
            better = self.eval_callback.evaluate(step, self.trainer)
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
                f"training ended after {done} of {self.schedule.steps} planned optimizer steps",
                "check whether a trainer argument under `trl` ends the run early, or the dataset has too few"
                " rows",
            )

    def _load_best_weights(self, trainer: Any) -> None:
        """Load the weights of the best evaluation, unless they are the last ones."""
        best = self.eval_callback.best_checkpoint()
        if best is not None and checkpoints.checkpoint_step(best) != self.step:
            load_checkpoint_weights(trainer, check_best_checkpoint(best), self.context.step.launch.strategy)

    def _save_product(self, trainer: Any) -> None:
        self.context.events.emit("phase", name="saving")
        self.eval_callback.warn_without_best()
        scratch = self.context.work / "scratch" / "model"
        counts = save_trained(
            trainer.model,
            trainer.processing_class,
            self.starting_model.base_key,
            scratch,
            self.context.out,
            weights=full_state_dict(trainer, self.context.step.launch),
            stored=self.starting_model.stored_dtype,
            initial=self._initial_matrices,
        )
        self.context.facts.update(steps=self.step, **counts, **self.eval_callback.facts())
        self.context.facts.update(self.eval_callback.save_product(self.step, self.context.out))

    def on_save(self, folder: Path) -> None:
        """Called when the trainer has written a checkpoint. It is valid once it is sealed."""
        process_group.barrier()
        self._async_checkpoint.wait()
        reference = checkpoint_extras.synced_reference_weights(self.trainer)
        if process_group.is_rank_zero() and not (folder / checkpoints.MANIFEST).exists():
            checkpoint_extras.save_extras(folder, reference, self.monitor)
            checkpoint_extras.save_launch(folder, self.context.step.launch)
            self.eval_callback.save_state(folder)
            if self.stream is not None:
                self.stream.save(folder)
            self._async_checkpoint.start_seal(folder, self.eval_callback.best_checkpoint())


def _find_resume_checkpoint(context: StepContext[TrainStepParams]) -> Path | None:
    """Return the checkpoint to resume from. Rank 0 selects it and broadcasts its name."""
    check_strategy_installed(context.step.launch)
    latest = latest_usable_checkpoint(context) if process_group.is_rank_zero() else None
    name = process_group.broadcast(latest.name if latest else None)
    if name is None:
        return None
    checkpoint_extras.check_launch(context.checkpoints / name, context.step.launch)
    return context.checkpoints / name


def _remove_printing_callbacks(trainer: Any) -> None:
    """Remove the trainer's callbacks that print to stdout."""
    from transformers import PrinterCallback, ProgressCallback

    for kind in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(kind)
