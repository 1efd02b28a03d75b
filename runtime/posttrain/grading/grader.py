"""The entry point of the package: grades one pair of answers, or many.

Exact arithmetic in this process decides most pairs. Worker processes grade the rest, so that no text can
hang, crash or slow down the caller. A verdict depends on the texts and the options, not on the load of the
machine.
"""

from collections.abc import Sequence

from posttrain.grading.context import Outcome
from posttrain.grading.options import DEFAULTS, Options, Verdict
from posttrain.grading.pair_grading import grade_pair
from posttrain.grading.worker_pool import WorkerPool, shared_pool
from posttrain.grading.worker_process import Task

MAX_CPU_SECONDS = 10.0


def grade(
    candidate: str, reference: str, options: Options = DEFAULTS, max_cpu_seconds: float = MAX_CPU_SECONDS
) -> Verdict:
    """Whether the candidate has the same answer as the reference. Never raises, whatever the texts are."""
    return grade_many([(candidate, reference)], options, max_cpu_seconds)[0]


def grade_many(
    pairs: Sequence[tuple[str, str]],
    options: Options = DEFAULTS,
    max_cpu_seconds: float = MAX_CPU_SECONDS,
    pool: WorkerPool | None = None,
) -> list[Verdict]:
    """A verdict for each pair, in order. Identical pairs are graded once.

    max_cpu_seconds: the limit of CPU time for one pair. Few pairs reach it: the limits of sizes and steps
        come first.
    """
    _check_texts(pairs)
    outcomes = {pair: _grade_locally(*pair, options) for pair in dict.fromkeys(pairs)}
    open_pairs = [
        pair for pair, outcome in outcomes.items() if outcome.equal is None and outcome.path == "exact"
    ]
    if open_pairs:
        tasks = [Task(*pair, options, max_cpu_seconds) for pair in open_pairs]
        decided = (pool or shared_pool()).run(tasks)
        outcomes |= zip(open_pairs, decided, strict=True)
    verdicts = {pair: Verdict(*outcome) for pair, outcome in outcomes.items()}
    return [verdicts[pair] for pair in pairs]


def _check_texts(pairs: Sequence[tuple[object, object]]) -> None:
    """A number or None would be reported as an internal error of the grader."""
    for pair in pairs:
        for side, text in zip(("candidate", "reference"), pair, strict=True):
            if not isinstance(text, str):
                raise TypeError(f"the {side} must be a text, not {type(text).__name__}: {text!r}"[:200])


def _grade_locally(candidate: str, reference: str, options: Options) -> Outcome:
    """Grade a pair in this process. A worker repeats a pair that fails, as in a caller with a deep stack."""
    try:
        return grade_pair(candidate, reference, options)
    except Exception as error:
        return Outcome(None, f"internal error: {type(error).__name__}: {error}")
