"""Checks evaluations during training: the evals, the metric that selects the best model, and the interval."""

from collections.abc import Iterator, Mapping

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.resolution.name_resolution import ResolvedRecipe
from posttrain.compiler.stages.eval_stage import CheckedEval
from posttrain.compiler.stages.held_out import WRONG_DIRECTION, CheckedHeldOut
from posttrain.compiler.stages.train_stage import CheckedTraining
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.diagnostic import Code
from posttrain.spec.eval_stages import Evaluate
from posttrain.spec.suggestions import hint
from posttrain.spec.train_stage import InLoopEval

_TRAIN = "{train: sft, model: base, data: sums.train, params: {epochs: 1, batch_size: 4}}"
_GRPO = (
    "{train: grpo, model: base, data: sums.train, reward: right, params: {max_steps: 40,"
    " optimizer_steps_per_generation: 4}, evaluate: {eval_steps: %d, evals: [check]}}"
)


# The recipe with a training that keeps the checkpoint that is best on the rows of `check`.
RECIPE_WITH_BEST = (
    (
        _TRAIN,
        _TRAIN[:-1] + ", evaluate: {eval_steps: 10, evals: [check], keep: best,"
        " metric_for_best_model: check.accuracy}}",
    ),
)


def _recipe_with_eval(evaluate: str) -> str:
    return minimal_recipe((_TRAIN, _TRAIN[:-1] + f", evaluate: {{{evaluate}}}}}"))


UNKNOWN_EVAL = Code(
    "PT0661",
    "unknown eval during training",
    "error",
    "`evaluate.evals` names eval stages of the recipe. Training evaluates the current model with their data,"
    " reward, sampling and metrics. It does not matter whether the eval stage itself runs before or after"
    " the training. A reward model cannot generate, so a stage that trains one takes no `evaluate`.",
    wrong=_recipe_with_eval("eval_steps: 10, evals: [chek]"),
    right=_recipe_with_eval("eval_steps: 10, evals: [check]"),
)
NO_METRIC_FOR_BEST_MODEL = Code(
    "PT0662",
    "missing or unused metric_for_best_model",
    "error",
    "`keep: best` and `early_stopping_patience` need `metric_for_best_model`: eval_loss or another metric of"
    " the method on the held-out rows of `data`, or EVAL.METRIC of an eval that `evals` names. Without either"
    " option the metric has no effect.",
    wrong=_recipe_with_eval("eval_steps: 10, evals: [check], keep: best"),
    right=_recipe_with_eval("eval_steps: 10, evals: [check], keep: best, metric_for_best_model: check.score"),
)
ROUNDED_EVAL_STEPS = Code(
    "PT0663",
    "eval_steps rounded up",
    "note",
    "An evaluation saves the best weights as a checkpoint. The method can resume exactly only after a"
    " multiple of `optimizer_steps_per_generation` x `num_iterations` steps, so `eval_steps` is rounded up"
    " to such a multiple.",
    wrong=minimal_recipe((_TRAIN, _GRPO % 10)),
    right=minimal_recipe((_TRAIN, _GRPO % 12)),
)
CODES = (UNKNOWN_EVAL, NO_METRIC_FOR_BEST_MODEL, ROUNDED_EVAL_STEPS)


def check_inloop_evals(
    resolved: ResolvedRecipe,
    trainings: Mapping[str, CheckedTraining],
    evals: Mapping[str, CheckedEval],
    held_out: Mapping[str, CheckedHeldOut],
    diagnostics: Diagnostics,
) -> None:
    for name, training in trainings.items():
        during = training.stage.evaluate
        if during is None:
            continue
        path: KeyPath = ("stages", name, "evaluate")
        if during.evals:
            _check_product(training, path, diagnostics)
        _check_evals(during, resolved, path, diagnostics)
        if _has_metrics(name, during, evals, held_out):
            _check_metric(during, evals, held_out.get(name), path, diagnostics)
        _check_eval_steps(during, training, path, diagnostics)


def _check_product(training: CheckedTraining, path: KeyPath, diagnostics: Diagnostics) -> None:
    if training.method.product == "scorer":
        message = f"`{training.method.name}` trains a reward model, which cannot generate"
        help = "remove `evals`, and evaluate held-out rows: `data: NAME.PART`"
        diagnostics.add(UNKNOWN_EVAL, (*path, "evals"), message, key=True, help=help)


def _check_evals(
    inloop_eval: InLoopEval, resolved: ResolvedRecipe, path: KeyPath, diagnostics: Diagnostics
) -> None:
    stages = resolved.recipe.stages
    known = [name for name, stage in stages.items() if isinstance(stage, Evaluate)]
    for index, name in enumerate(inloop_eval.evals):
        if name not in known and name not in resolved.recipe.invalid_names:
            help, meant = hint(name, known, what="eval stages")
            what = "is not an eval" if name in stages else "does not exist"
            message = f"the stage `{name}` {what}"
            labels, place = diagnostics.removal_labels(name, "stages"), (*path, "evals", index)
            diagnostics.add(UNKNOWN_EVAL, place, message, help=help, labels=labels, replace=meant)


def _check_metric(
    inloop_eval: InLoopEval,
    evals: Mapping[str, CheckedEval],
    held_out: CheckedHeldOut | None,
    path: KeyPath,
    diagnostics: Diagnostics,
) -> None:
    deciding = [word for word, given in _metric_consumers(inloop_eval) if given]
    if inloop_eval.metric_for_best_model is None:
        if deciding:
            message = f"{' and '.join(deciding)} needs `metric_for_best_model`"
            help = f"add `metric_for_best_model: {'eval_loss' if held_out else 'EVAL.METRIC'}`"
            diagnostics.add(NO_METRIC_FOR_BEST_MODEL, path, message, key=True, help=help)
        return
    if not deciding:
        message = "`metric_for_best_model` has no effect"
        help = "add `keep: best` or `early_stopping_patience`, or remove the key"
        diagnostics.add(NO_METRIC_FOR_BEST_MODEL, (*path, "metric_for_best_model"), message, help=help)
    on_rows = held_out.named_metrics if held_out else {}
    known = [*on_rows, *(f"{name}.{metric}" for name in inloop_eval.evals for metric in evals[name].metrics)]
    named = inloop_eval.metric_for_best_model
    if named not in known:
        # transformers accepts the name without its prefix.
        guess = f"eval_{named}" if f"eval_{named}" in known else named
        help, meant = hint(guess, known, what="metrics") if guess == named else (f"write `{guess}`", guess)
        where = "`evaluate` has no metric" if on_rows else "no eval in `evals` has the metric"
        diagnostics.add(
            NO_METRIC_FOR_BEST_MODEL,
            (*path, "metric_for_best_model"),
            f"{where} `{named}`",
            help=help,
            replace=meant,
        )
    elif named in on_rows and inloop_eval.greater_is_better is on_rows[named].lower_is_better:
        better = "lower" if on_rows[named].lower_is_better else "higher"
        message = f"{better} values of `{named}` are better"
        diagnostics.add(WRONG_DIRECTION, (*path, "greater_is_better"), message, help="remove the key")


def _has_metrics(
    name: str,
    during: InLoopEval,
    evals: Mapping[str, CheckedEval],
    held_out: Mapping[str, CheckedHeldOut],
) -> bool:
    """Whether the metrics are known: the rows and the evals have no errors of their own."""
    return (during.data is None or name in held_out) and all(one in evals for one in during.evals)


def _metric_consumers(inloop_eval: InLoopEval) -> Iterator[tuple[str, bool]]:
    yield "`keep: best`", inloop_eval.keep == "best"
    yield "`early_stopping_patience`", inloop_eval.early_stopping_patience is not None


def _check_eval_steps(
    inloop_eval: InLoopEval, training: CheckedTraining, path: KeyPath, diagnostics: Diagnostics
) -> None:
    boundary = training.boundary
    if boundary is not None and inloop_eval.eval_steps % boundary:
        rounded = round_up_to_boundary(inloop_eval.eval_steps, boundary)
        message = f"evaluation runs every {rounded} steps: the method can resume every {boundary} steps"
        diagnostics.add(ROUNDED_EVAL_STEPS, (*path, "eval_steps"), message)


def round_up_to_boundary(every: int, boundary: int) -> int:
    """Round a number of steps up to a multiple after which the method can resume exactly."""
    return -(-every // boundary) * boundary
