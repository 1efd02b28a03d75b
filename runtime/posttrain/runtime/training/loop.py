"""One training loop for all methods: exact resume, sealed checkpoints, events, and honest failure."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from posttrain.runtime import checkpoints
from posttrain.runtime.context import Context
from posttrain.runtime.faults import Interrupted, StepFault
from posttrain.runtime.launch import group
from posttrain.runtime.launch.rollouts import rollout_engine
from posttrain.runtime.launch.strategy import (
    check_installed,
    check_launched,
    spread,
    strategy_arguments,
    whole_weights,
)
from posttrain.runtime.launch.whole import take_weights
from posttrain.runtime.models.load import Start
from posttrain.runtime.models.save import save_trained
from posttrain.runtime.training import fitting, kept
from posttrain.runtime.training.callback import callback_for
from posttrain.runtime.training.costs import Costs
from posttrain.runtime.training.kernels import kernel_arguments, over
from posttrain.runtime.training.measuring import Measuring, check_kept, usable
from posttrain.runtime.training.order import steady
from posttrain.runtime.training.params import TrainingParams, checkpoint_interval, learning_rate
from posttrain.runtime.training.rates import rate_arguments
from posttrain.runtime.training.reference import pull_in_parts
from posttrain.runtime.training.sealing import Sealing
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


class _AllDone(Exception):
    """An earlier attempt took the last step. The trainer has its weights now, divided as they were."""


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
        self._begin_epoch: Callable[[int], None] = lambda _: None
        self.costs = Costs(planned.rows_per_step)
        self.measuring = Measuring(context, start.tokenizer, planned)
        self._sealing = Sealing(context, params.keep_checkpoints)
        # The checkpoint of an earlier attempt that this one goes on from.
        self.found = _found(context)
        self.step = checkpoints.step_of(self.found) if self.found else 0
        if self.found is not None:
            self.watch.restore(kept.seen(self.found))
            self.measuring.restore(self.found)
        self.stopped = False
        fitting.check_tokens(start.model, start.tokenizer, self.watch)

    def arguments(self, own: dict[str, Any]) -> dict[str, Any]:
        """The trainer's arguments: ours, the method's own, then what the recipe gives under `trl`."""
        params, seed = self.params, self.context.params["seed"]
        shared: dict[str, Any] = {
            "output_dir": str(self.context.checkpoints),
            "seed": seed,
            "data_seed": seed,
            "learning_rate": self._highest(),
            "weight_decay": params.weight_decay,
            "max_grad_norm": params.clip,
            "bf16": params.precision == "bfloat16",
            "fp16": params.precision == "float16",
            "gradient_checkpointing": params.gradient_checkpointing,
            **self._by_steps(),
        }
        own = spread(own, self.context.step.launch.processes)
        own |= strategy_arguments(self.context.step, own)
        if "num_generations" in own:
            own |= rollout_engine(self.context.step.launch)
        own |= kernel_arguments(params, self.context.step.resources.gpus, self.context.work / "scratch")
        return over({**shared, **_ALWAYS, **own}, self.context.params["trl"])

    def _by_steps(self) -> dict[str, Any]:
        """The trainer's arguments that follow from how many steps there are."""
        return {
            "max_steps": self.planned.steps,
            **rate_arguments(self.params, self.planned.steps, self._highest()),
            "save_steps": checkpoint_interval(self.params, self.planned),
        }

    def _highest(self) -> float:
        return learning_rate(self.params, self.start.base is not None)

    def replan(self, trainer: Any, planned: Schedule) -> None:
        """Go by other steps than were foreseen, since the trainer has made other rows of the rows."""
        self.planned = planned
        self.watch.plan(planned)
        self.measuring.plan(planned)
        for name, value in self._by_steps().items():
            setattr(trainer.args, name, self.context.params["trl"].get(name, value))

    def made(self, trainer: Any, config: Any, data: Any, own: dict[str, Any], **given: Any) -> Any:
        """A trainer of TRL's with its configuration; `given` goes to it beside what all of them take."""
        return trainer(
            model=self.start.model,
            args=config(**self.arguments(own)),
            train_dataset=data,
            processing_class=self.start.tokenizer,
            peft_config=self.start.adapter,
            **given,
        )

    def run(self, trainer: Any, data: Any) -> None:
        """Train on `data`, as the trainer has prepared it, and write the product."""
        self.trainer = trainer
        fitting.check_rows(trainer, data, self.watch)
        if self.found is not None:
            kept.restore_reference(self.found, trainer)
            self.context.events.emit("resumed", step=self.step)
        self._train(trainer)
        self._take_best(trainer)
        self._save(trainer)

    def _train(self, trainer: Any) -> None:
        if self.context.step.launch.strategy == "zero3":
            pull_in_parts(trainer)
        trainer.add_callback(callback_for(self))
        _only_ours(trainer)
        self._begin_epoch = steady(trainer)
        try:
            trainer.train(resume_from_checkpoint=str(self.found) if self.found else None)
        except _AllDone:
            pass
        finally:  # a checkpoint counts even when a later step fails
            self._sealing.settle()
        group.wait()  # the best weights may be in the checkpoint that was sealed last
        if self.stopped and self.step < self.planned.steps:
            raise Interrupted
        self._check_done(trainer)

    def begun(self) -> None:
        """Called when the trainer has made everything ready for its first step."""
        check_launched(self.trainer, self.context.step.launch)
        if self.found is not None and (self.step == self.planned.steps or self.measuring.ended):
            raise _AllDone  # asked to go on from the last step, the trainer would take one more

    def epoch(self, number: int) -> None:
        """Called before the rows of an epoch are drawn."""
        self._begin_epoch(number)

    def stepped(self, step: int, control: Any) -> None:
        """Called after each step, before the trainer writes a checkpoint of it."""
        if self.measuring.due(step):
            better = self.measuring.make(step, self.trainer.model)
            control.should_save = control.should_save or better or self.measuring.ended
            control.should_training_stop = control.should_training_stop or self.measuring.ended
        if group.any_of(self.context.stop.asked) and step % self.planned.boundary == 0:
            self.stopped = not self.measuring.ended
            control.should_save = True
            control.should_training_stop = True

    def _check_done(self, trainer: Any) -> None:
        done = trainer.state.global_step
        if done != self.planned.steps and not self.measuring.ended:
            raise StepFault(
                f"{done} optimizer steps were done, and {self.planned.steps} were planned",
                "the data ran out, or a trainer argument under `trl` ends the run early",
            )

    def _take_best(self, trainer: Any) -> None:
        """Put the weights that were measured best in the place of the last ones."""
        best = self.measuring.best()
        if best is not None and checkpoints.step_of(best) != self.step:
            take_weights(trainer, check_kept(best), self.context.step.launch.strategy)

    def _save(self, trainer: Any) -> None:
        self.context.events.emit("phase", name="saving")
        scratch = self.context.work / "scratch" / "model"
        counts = save_trained(
            trainer.model,
            trainer.processing_class,
            self.start.base,
            scratch,
            self.context.out,
            weights=whole_weights(trainer, self.context.step.launch),
            stored=self.start.stored,
        )
        self.context.facts.update(steps=self.step, **counts, **self.measuring.facts())

    def checkpointed(self, folder: Path) -> None:
        """Called when the trainer has written a checkpoint, which counts when it is sealed."""
        group.wait()
        self._sealing.settle()
        moved = kept.moved_reference(self.trainer)
        if group.first() and not (folder / checkpoints.MANIFEST).exists():
            kept.keep(folder, moved, self.watch)
            kept.keep_launch(folder, self.context.step.launch)
            self.measuring.keep(folder)
            self._sealing.begin(folder, self.measuring.best())


def _found(context: Context) -> Path | None:
    """The checkpoint to go on from: one process looks, and all go by what it finds."""
    check_installed(context.step.launch)
    found = usable(context) if group.first() else None
    name = group.agreed(found.name if found else None)
    if name is None:
        return None
    kept.check_launch(context.checkpoints / name, context.step.launch)
    return context.checkpoints / name


def _only_ours(trainer: Any) -> None:
    """Take out the callbacks that print."""
    from transformers import PrinterCallback, ProgressCallback

    for kind in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(kind)
