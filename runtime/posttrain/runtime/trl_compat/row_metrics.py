"""Records the loss and the metrics of each batch that a TRL trainer evaluates.

TRL averages its metrics over batches, however few rows the last batch has, and gathers them from all
processes. With several processes, accelerate completes the last batches with repeated rows, whose losses are
part of the mean. Here each process records its own batches without repeated rows. The caller weights them.

    trl/trainer/dpo_trainer.py:1701 `DPOTrainer.log`: `sum(val) / len(val)`
    accelerate/data_loader.py:266 `BatchSamplerShard._iter_with_no_split`: `batch += initial_data[`
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from posttrain.runtime.trl_compat.row_weighting import first_rows


@dataclass(frozen=True, kw_only=True)
class EvaluatedBatch:
    """A batch of held-out rows."""

    # The position of the batch in the dataset, and the number of its rows.
    number: int
    rows: int
    loss: float
    # The trainer's other metrics of this batch, by TRL's names.
    metrics: dict[str, float]
    # The number of desirable rows, if the rows have labels.
    desirable: int | None
    # SFT: the loss, the tokens, and the correctly predicted tokens of each row.
    row_tokens: list[tuple[float, int, int]] | None


def recording_trainer(base: Any) -> Any:
    """Derive a trainer class that records the batches of its evaluations."""

    class RecordingTrainer(base):
        recorded: list[EvaluatedBatch | None]
        outputs: Any = None

        def evaluate_batches(self) -> list[EvaluatedBatch]:
            """Evaluate the trainer's eval dataset. Returns the batches of this process. Collective."""
            self.recorded = []
            stored = _eval_metrics(self)
            stored.clear()
            loader = self.get_eval_dataloader()
            self.evaluation_loop(loader, "Evaluation", prediction_loss_only=True)
            stored.clear()
            return [one for one in self.recorded if one is not None]

        def prediction_step(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            number = len(self.recorded) * self.accelerator.num_processes + self.accelerator.process_index
            size = self.args.per_device_eval_batch_size
            rows = min(max(len(self.eval_dataset) - number * size, 0), size)
            if 0 < rows < size and self.accelerator.num_processes > 1:
                inputs = {name: first_rows(value, rows, size) for name, value in inputs.items()}
            with _gathering_nothing(self.accelerator):
                result = super().prediction_step(model, inputs, *args, **kwargs)
            self.recorded.append(_recorded(self, number, rows, inputs, result[0]) if rows else None)
            _eval_metrics(self).clear()
            return result

        def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            if self.model.training:
                return super().compute_loss(model, inputs, *args, **kwargs)

            def recording_model(*given: Any, **named: Any) -> Any:
                self.outputs = model(*given, **named)
                return self.outputs

            return super().compute_loss(recording_model, inputs, *args, **kwargs)

    return RecordingTrainer


def _eval_metrics(trainer: Any) -> Any:
    """Return the metrics that the trainer has stored in the current evaluation."""
    return (trainer._metrics if hasattr(trainer, "_metrics") else trainer._stored_metrics)["eval"]


def _recorded(trainer: Any, number: int, rows: int, inputs: Any, loss: Any) -> EvaluatedBatch:
    metrics = {
        name.removeprefix("eval_"): float(values[-1]) for name, values in _eval_metrics(trainer).items()
    }
    outputs, trainer.outputs = trainer.outputs, None
    return EvaluatedBatch(
        number=number,
        rows=rows,
        loss=float(loss),
        metrics=metrics,
        desirable=int(inputs["label"].sum()) if "label" in inputs else None,
        row_tokens=_row_tokens(outputs) if "labels" in inputs else None,
    )


def _row_tokens(outputs: Any) -> list[tuple[float, int, int]]:
    """Return the loss and the counts of each row, as TRL computes them for a batch of one row.

    TRL's outputs are 0 at tokens without a loss.
    """
    counts, right = outputs.label_mask.sum(-1), outputs.is_top1.sum(-1)
    losses = -outputs.log_probs.sum(-1) / counts.clamp(min=1)
    return list(zip(losses.tolist(), counts.tolist(), right.tolist(), strict=True))


def _own_values(values: Any, *_arguments: Any, **_named: Any) -> Any:
    return values


@contextmanager
def _gathering_nothing(accelerator: Any) -> Generator[None]:
    """Let the trainer compute the metrics of this process alone."""
    names = ("gather", "gather_for_metrics")
    methods = [getattr(accelerator, name) for name in names]
    for name in names:
        setattr(accelerator, name, _own_values)
    try:
        yield
    finally:
        for name, method in zip(names, methods, strict=True):
            setattr(accelerator, name, method)
