"""The door of this package: one pair, or many.

Most pairs are settled here and now in exact arithmetic. What is left goes to worker processes, each with a
deadline after which it is killed, so that no text can hang, crash or slow down the caller.
"""

from collections.abc import Sequence

from posttrain.grading.context import Outcome
from posttrain.grading.options import DEFAULTS, Options, Verdict
from posttrain.grading.pair_grading import grade_pair
from posttrain.grading.worker_pool import WorkerPool, shared_pool
from posttrain.grading.worker_process import Task

DEADLINE_S = 3.0


def grade(
    candidate: str, reference: str, options: Options = DEFAULTS, deadline_s: float = DEADLINE_S
) -> Verdict:
    """Whether the candidate gives the reference's answer. Never raises on what the two strings hold."""
    return grade_many([(candidate, reference)], options, deadline_s)[0]


def grade_many(
    pairs: Sequence[tuple[str, str]],
    options: Options = DEFAULTS,
    deadline_s: float = DEADLINE_S,
    within_s: float | None = None,
    pool: WorkerPool | None = None,
) -> list[Verdict]:
    """A verdict for each pair, in order; equal pairs are graded once.

    deadline_s bounds the work on one pair, within_s that of the whole call: pairs not reached stay undecided.
    """
    outcomes = {pair: _grade_locally(*pair, options) for pair in dict.fromkeys(pairs)}
    open_pairs = [
        pair for pair, outcome in outcomes.items() if outcome.equal is None and outcome.path == "exact"
    ]
    if open_pairs:
        tasks = [Task(*pair, options, deadline_s) for pair in open_pairs]
        settled = (pool or shared_pool()).run(tasks, within_s)
        outcomes |= zip(open_pairs, settled, strict=True)
    verdicts = {pair: Verdict(*outcome) for pair, outcome in outcomes.items()}
    return [verdicts[pair] for pair in pairs]


def _grade_locally(candidate: str, reference: str, options: Options) -> Outcome:
    """A fault of this package on some strange text must not end a training run; it is reported as such."""
    try:
        return grade_pair(candidate, reference, options)
    except Exception as error:
        return Outcome(None, f"the grader failed: {type(error).__name__}: {error}", "limit")
