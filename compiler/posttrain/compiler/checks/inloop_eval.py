"""Evaluations while a model is trained: the evals that are named, and the metric that decides."""

from collections.abc import Iterator, Mapping

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.diagnosis.suggest import hint
from posttrain.compiler.resolution.name_resolution import ResolvedRecipe
from posttrain.compiler.stages.eval_stage import CheckedEval
from posttrain.compiler.stages.train_stage import CheckedTraining
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.diagnostic import Code
from posttrain.spec.eval_stages import Evaluate
from posttrain.spec.train_stage import InLoopEval

_TRAIN = "{train: sft, model: base, data: sums.train, params: {epochs: 1, batch_size: 4}}"
_GRPO = (
    "{train: grpo, model: base, data: sums.train, reward: right, params: {max_steps: 40,"
    " optimizer_steps_per_generation: 4}, evaluate: {eval_steps: %d, evals: [check]}}"
)


def _recipe_with_eval(evaluate: str) -> str:
    return minimal_recipe((_TRAIN, _TRAIN[:-1] + f", evaluate: {{{evaluate}}}}}"))


UNKNOWN_EVAL = Code(
    "PT0661",
    "an evaluation during training that is no eval of the recipe",
    "error",
    "`evaluate.evals` names eval stages of the recipe. Their data, reward, sampling and metrics are used on"
    " the model as it is trained; whether the eval stage itself runs before or after does not matter. A"
    " method whose product is a scorer writes nothing that could be measured.",
    wrong=_recipe_with_eval("eval_steps: 10, evals: [chek]"),
    right=_recipe_with_eval("eval_steps: 10, evals: [check]"),
)
NO_METRIC_FOR_BEST_MODEL = Code(
    "PT0662",
    "no metric to decide by",
    "error",
    "`keep: best` and `early_stopping_patience` go by one metric, written EVAL.METRIC, of an eval that"
    " `evals` names. Without either of them a metric would decide nothing.",
    wrong=_recipe_with_eval("eval_steps: 10, evals: [check], keep: best"),
    right=_recipe_with_eval("eval_steps: 10, evals: [check], keep: best, metric_for_best_model: check.score"),
)
ROUNDED_EVAL_STEPS = Code(
    "PT0663",
    "evaluations moved to where a stage resumes exactly",
    "note",
    "The weights that an evaluation finds best are kept as a checkpoint, and checkpoints are made where the"
    " method resumes exactly: after every `optimizer_steps_per_generation` x `num_iterations` steps."
    " `eval_steps` is rounded up to a multiple of these.",
    wrong=minimal_recipe((_TRAIN, _GRPO % 10)),
    right=minimal_recipe((_TRAIN, _GRPO % 12)),
)
CODES = (UNKNOWN_EVAL, NO_METRIC_FOR_BEST_MODEL, ROUNDED_EVAL_STEPS)


def check_inloop_evals(
    resolved: ResolvedRecipe,
    trainings: Mapping[str, CheckedTraining],
    evals: Mapping[str, CheckedEval],
    diagnostics: Diagnostics,
) -> None:
    for name, training in trainings.items():
        during = training.stage.evaluate
        if during is None:
            continue
        path: KeyPath = ("stages", name, "evaluate")
        _check_product(training, path, diagnostics)
        _check_evals(during, resolved, path, diagnostics)
        _check_metric(during, evals, path, diagnostics)
        _check_eval_steps(during, training, path, diagnostics)


def _check_product(training: CheckedTraining, path: KeyPath, diagnostics: Diagnostics) -> None:
    if training.method.product == "scorer":
        message = f"`{training.method.name}` trains a scorer, which writes nothing to measure"
        diagnostics.add(UNKNOWN_EVAL, path, message, key=True, help="remove `evaluate`")


def _check_evals(
    inloop_eval: InLoopEval, resolved: ResolvedRecipe, path: KeyPath, diagnostics: Diagnostics
) -> None:
    stages = resolved.recipe.stages
    known = [name for name, stage in stages.items() if isinstance(stage, Evaluate)]
    for index, name in enumerate(inloop_eval.evals):
        if name not in known and name not in resolved.recipe.invalid_names:
            help, meant = hint(name, known, what="eval stages")
            what = "is no eval" if name in stages else "does not exist"
            message = f"the stage `{name}` {what}"
            diagnostics.add(UNKNOWN_EVAL, (*path, "evals", index), message, help=help, replace=meant)


def _check_metric(
    inloop_eval: InLoopEval, evals: Mapping[str, CheckedEval], path: KeyPath, diagnostics: Diagnostics
) -> None:
    deciding = [word for word, given in _metric_consumers(inloop_eval) if given]
    if inloop_eval.metric_for_best_model is None:
        if deciding:
            message = f"{' and '.join(deciding)} needs a metric to go by"
            help = "add `metric_for_best_model: EVAL.METRIC`"
            diagnostics.add(NO_METRIC_FOR_BEST_MODEL, path, message, key=True, help=help)
        return
    if not deciding:
        message = "nothing goes by this metric"
        help = "add `keep: best` or `early_stopping_patience`, or remove it"
        diagnostics.add(NO_METRIC_FOR_BEST_MODEL, (*path, "metric_for_best_model"), message, help=help)
    if any(name not in evals for name in inloop_eval.evals):  # one of them is mistaken itself
        return
    known = [f"{name}.{metric}" for name in inloop_eval.evals for metric in evals[name].metrics]
    if inloop_eval.metric_for_best_model not in known:
        help, meant = hint(inloop_eval.metric_for_best_model, known, what="metrics")
        message = f"no eval here gives `{inloop_eval.metric_for_best_model}`"
        diagnostics.add(
            NO_METRIC_FOR_BEST_MODEL, (*path, "metric_for_best_model"), message, help=help, replace=meant
        )


def _metric_consumers(inloop_eval: InLoopEval) -> Iterator[tuple[str, bool]]:
    yield "`keep: best`", inloop_eval.keep == "best"
    yield "`early_stopping_patience`", inloop_eval.early_stopping_patience is not None


def _check_eval_steps(
    inloop_eval: InLoopEval, training: CheckedTraining, path: KeyPath, diagnostics: Diagnostics
) -> None:
    boundary = training.boundary
    if boundary is not None and inloop_eval.eval_steps % boundary:
        message = (
            f"evaluations are made every {round_up_to_boundary(inloop_eval.eval_steps, boundary)} steps: the"
            f" method resumes exactly every {boundary}"
        )
        diagnostics.add(ROUNDED_EVAL_STEPS, (*path, "eval_steps"), message)


def round_up_to_boundary(every: int, boundary: int) -> int:
    """Steps between two things that happen where a method resumes exactly."""
    return -(-every // boundary) * boundary
