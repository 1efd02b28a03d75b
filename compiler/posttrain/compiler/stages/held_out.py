"""Checks the held-out rows that a training stage evaluates, and defines their metrics."""

from collections.abc import Mapping
from typing import Any

from posttrain.compiler.data import data_codes
from posttrain.compiler.data.datasets import CompiledDataset, check_part, table_of
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.resolution.name_resolution import ResolvedRecipe
from posttrain.compiler.stages.eval_stage import Metric
from posttrain.compiler.stages.train_stage import CheckedTraining, columns_text, matching_columns
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.column_types import Columns, Interval
from posttrain.spec.diagnostic import Code
from posttrain.spec.extension import EvalMetric
from posttrain.spec.record import record
from posttrain.spec.step_params.train_params import HELD_OUT_ROLE, HeldOutMetric

_TRAIN = "{train: sft, model: base, data: sums.train, params: {epochs: 1, batch_size: 4}}"


def _recipe_with_rows(evaluate: str) -> str:
    return minimal_recipe((_TRAIN, _TRAIN[:-1] + f", evaluate: {{eval_steps: 10, {evaluate}}}}}"))


NOTHING_TO_EVALUATE = Code(
    "PT0665",
    "nothing to evaluate during training",
    "error",
    "`evaluate` needs `data`, held-out rows for the loss and the other metrics of the method, or `evals`,"
    " eval stages that generate completions, or both. Methods that learn from their own completions have no"
    " loss on rows: they need `evals`.",
    wrong=minimal_recipe((_TRAIN, _TRAIN[:-1] + ", evaluate: {eval_steps: 10}}")),
    right=_recipe_with_rows("data: sums.test"),
)
WRONG_DIRECTION = Code(
    "PT0666",
    "wrong direction of a metric",
    "error",
    "`greater_is_better` contradicts the metric: `keep: best` would keep the worst weights. Losses and"
    " perplexity improve as they fall, all other metrics on held-out rows as they rise. Without the key, the"
    " direction follows from the metric.",
    wrong=_recipe_with_rows(
        "data: sums.test, metric_for_best_model: eval_loss, keep: best, greater_is_better: true"
    ),
    right=_recipe_with_rows("data: sums.test, metric_for_best_model: eval_loss, keep: best"),
)
CODES = (NOTHING_TO_EVALUATE, WRONG_DIRECTION)


@record(kw_only=True)
class CheckedHeldOut:
    """The held-out rows of a training stage, as gates see them: a stage with metrics."""

    training: CheckedTraining
    # The number of rows if known; an upper bound if it is not exact.
    num_rows: int | None
    # The weights that the training starts from, and the parameters that decide which tokens have a loss.
    comparable: tuple[Any, ...]

    @property
    def named_metrics(self) -> Mapping[str, EvalMetric]:
        """The metrics of the method by name, including those that gates cannot use."""
        return {one.name: one for one in self.training.method.eval_metrics}

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """The metrics that are means over rows."""
        return {name: _gate_metric(one) for name, one in self.named_metrics.items() if one.kind is not None}

    @property
    def invalid_metrics(self) -> frozenset[str]:
        return frozenset()

    @property
    def samples(self) -> int:
        return 1

    def num_items(self, metric: str) -> int | None:
        return None if self.training.method.batched_evaluation(self.training.params) else self.num_rows

    def pairing_key(self, resolved: ResolvedRecipe, name: str, metric: str) -> Any:
        """Return what must be equal in two stages to compare them row by row."""
        return resolved.refs.get((f"stage:{name}", HELD_OUT_ROLE)), metric, self.comparable

    def step_params(self) -> dict[str, HeldOutMetric]:
        return {name: HeldOutMetric(kind=one.kind) for name, one in self.named_metrics.items()}


def _gate_metric(metric: EvalMetric) -> Metric:
    assert metric.kind is not None, "gates use means"
    return Metric(
        metric.kind,
        metric.name,
        Interval(0.0, 1.0) if metric.kind == "rate" else Interval.unbounded(),
        lower_is_better=metric.lower_is_better,
        held_out=True,
    )


def check_held_out(
    name: str,
    training: CheckedTraining,
    resolved: ResolvedRecipe,
    rows: Mapping[str, CompiledDataset],
    diagnostics: Diagnostics,
) -> CheckedHeldOut | None:
    """Check the section `evaluate` of a stage. None if it has no held-out rows, or invalid ones."""
    during = training.stage.evaluate
    if during is None:
        return None
    path: KeyPath = ("stages", name, "evaluate")
    if during.data is None:
        if not during.evals:
            help = "add `data: NAME.PART` with held-out rows, or `evals: [STAGE]`"
            message = "`evaluate` has neither `data` nor `evals`"
            diagnostics.add(NOTHING_TO_EVALUATE, path, message, key=True, help=help)
        return None
    if not training.method.eval_metrics:
        message = f"`{training.method.name}` has no loss on held-out rows"
        help = "remove the key, and name eval stages in `evals`"
        diagnostics.add(NOTHING_TO_EVALUATE, (*path, "data"), message, help=help)
        return None
    ref = resolved.refs.get((f"stage:{name}", HELD_OUT_ROLE))
    table = table_of(ref, rows, resolved) if ref else None
    if ref is None or table is None or not check_part(ref, table, (*path, "data"), diagnostics):
        return None
    trained_ref = resolved.refs.get((f"stage:{name}", "data"))
    trained = table_of(trained_ref, rows, resolved) if trained_ref else None
    _check_columns(training, table.columns, trained.columns if trained else {}, path, diagnostics)
    if table.max_rows(ref.part) == 0:
        message = f"`{during.data}` has no rows"
        diagnostics.add(NOTHING_TO_EVALUATE, (*path, "data"), message, help="check the steps of the dataset")
    return CheckedHeldOut(
        training=training, num_rows=table.max_rows(ref.part), comparable=_comparable(training)
    )


def _check_columns(
    training: CheckedTraining, columns: Columns, trained: Columns, path: KeyPath, diagnostics: Diagnostics
) -> None:
    """Check that the rows have the columns that the training reads."""
    needed = matching_columns(training.method, trained)
    if not columns or needed is None or matching_columns(training.method, columns) == needed:
        return
    message = f"the training reads {columns_text(needed)}; the held-out rows have {columns_text(columns)}"
    help = "split one dataset with the data step `split`, or derive the same columns"
    diagnostics.add(data_codes.MISSING_COLUMN, (*path, "data"), message, help=help)


def _comparable(training: CheckedTraining) -> tuple[Any, ...]:
    """Return what two trainings must share, so that the losses of a row have the same meaning."""
    names = ("loss_on", "loss_type", "max_length", "beta")
    return (training.method.name, *(getattr(training.params, name, None) for name in names))
