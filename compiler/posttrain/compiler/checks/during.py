"""Evaluations while a model is trained: the evals that are named, and the metric that decides."""

from collections.abc import Iterator, Mapping

from posttrain.compiler.diagnosis.examples import minimal
from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.diagnosis.suggest import hint
from posttrain.compiler.resolution.names import Named
from posttrain.compiler.stages.evals import Evaluation
from posttrain.compiler.stages.training import Training
from posttrain.compiler.text.tree import Path
from posttrain.spec.diagnostic import Code
from posttrain.spec.measuring import Evaluate
from posttrain.spec.training import During

_TRAIN = "{train: sft, model: base, data: sums.train, params: {epochs: 1, batch: 4}}"
_GRPO = (
    "{train: grpo, model: base, data: sums.train, reward: right, params: {steps: 40, buffer: 4},"
    " evaluate: {every: %d, evals: [check]}}"
)


def _during(evaluate: str) -> str:
    return minimal((_TRAIN, _TRAIN[:-1] + f", evaluate: {{{evaluate}}}}}"))


NO_EVAL = Code(
    "PT0661",
    "an evaluation during training that is no eval of the recipe",
    "error",
    "`evaluate.evals` names eval stages of the recipe. Their data, reward, sampling and metrics are used on"
    " the model as it is trained; whether the eval stage itself runs before or after does not matter. A"
    " method whose product is a scorer writes nothing that could be measured.",
    wrong=_during("every: 10, evals: [chek]"),
    right=_during("every: 10, evals: [check]"),
)
NO_DECIDING_METRIC = Code(
    "PT0662",
    "no metric to decide by",
    "error",
    "`keep: best` and `patience` go by one metric, written EVAL.METRIC, of an eval that `evals` names."
    " Without either of them a metric would decide nothing.",
    wrong=_during("every: 10, evals: [check], keep: best"),
    right=_during("every: 10, evals: [check], keep: best, metric: check.score"),
)
MOVED = Code(
    "PT0663",
    "evaluations moved to where a stage resumes exactly",
    "note",
    "The weights that an evaluation finds best are kept as a checkpoint, and checkpoints are made where the"
    " method resumes exactly: after every `buffer` x `iterations` steps. `every` is rounded up to a multiple"
    " of these.",
    wrong=minimal((_TRAIN, _GRPO % 10)),
    right=minimal((_TRAIN, _GRPO % 12)),
)
CODES = (NO_EVAL, NO_DECIDING_METRIC, MOVED)


def check_during(
    named: Named,
    trainings: Mapping[str, Training],
    evals: Mapping[str, Evaluation],
    findings: Findings,
) -> None:
    for name, training in trainings.items():
        during = training.stage.evaluate
        if during is None:
            continue
        path: Path = ("stages", name, "evaluate")
        _check_product(training, path, findings)
        _check_evals(during, named, path, findings)
        _check_metric(during, evals, path, findings)
        _check_every(during, training, path, findings)


def _check_product(training: Training, path: Path, findings: Findings) -> None:
    if training.method.product == "scorer":
        message = f"`{training.method.name}` trains a scorer, which writes nothing to measure"
        findings.add(NO_EVAL, path, message, key=True, help="remove `evaluate`")


def _check_evals(during: During, named: Named, path: Path, findings: Findings) -> None:
    stages = named.recipe.stages
    known = [name for name, stage in stages.items() if isinstance(stage, Evaluate)]
    for index, name in enumerate(during.evals):
        if name not in known and name not in named.recipe.broken:
            help, meant = hint(name, known, what="eval stages")
            what = "is no eval" if name in stages else "does not exist"
            message = f"the stage `{name}` {what}"
            findings.add(NO_EVAL, (*path, "evals", index), message, help=help, replace=meant)


def _check_metric(during: During, evals: Mapping[str, Evaluation], path: Path, findings: Findings) -> None:
    deciding = [word for word, given in _deciders(during) if given]
    if during.metric is None:
        if deciding:
            message = f"{' and '.join(deciding)} needs a metric to go by"
            help = "add `metric: EVAL.METRIC`"
            findings.add(NO_DECIDING_METRIC, path, message, key=True, help=help)
        return
    if not deciding:
        message = "nothing goes by this metric"
        help = "add `keep: best` or `patience`, or remove it"
        findings.add(NO_DECIDING_METRIC, (*path, "metric"), message, help=help)
    if any(name not in evals for name in during.evals):  # one of them is mistaken itself
        return
    known = [f"{name}.{metric}" for name in during.evals for metric in evals[name].metrics]
    if during.metric not in known:
        help, meant = hint(during.metric, known, what="metrics")
        message = f"no eval here gives `{during.metric}`"
        findings.add(NO_DECIDING_METRIC, (*path, "metric"), message, help=help, replace=meant)


def _deciders(during: During) -> Iterator[tuple[str, bool]]:
    yield "`keep: best`", during.keep == "best"
    yield "`patience`", during.patience is not None


def _check_every(during: During, training: Training, path: Path, findings: Findings) -> None:
    boundary = training.boundary
    if boundary is not None and during.every % boundary:
        message = (
            f"evaluations are made every {rounded(during.every, boundary)} steps: the method resumes exactly"
            f" every {boundary}"
        )
        findings.add(MOVED, (*path, "every"), message)


def rounded(every: int, boundary: int) -> int:
    """Steps between two things that happen where a method resumes exactly."""
    return -(-every // boundary) * boundary
