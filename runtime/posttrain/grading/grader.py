"""The entry point of the package: grades one pair of answers, or many.

Exact arithmetic in this process decides most pairs. Worker processes grade the rest. A worker that exceeds
its time limit is killed, so that no text can hang, crash or slow down the caller.
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
    """Whether the candidate has the same answer as the reference. Never raises, whatever the texts are."""
    return grade_many([(candidate, reference)], options, deadline_s)[0]


def grade_many(
    pairs: Sequence[tuple[str, str]],
    options: Options = DEFAULTS,
    deadline_s: float = DEADLINE_S,
    within_s: float | None = None,
    pool: WorkerPool | None = None,
) -> list[Verdict]:
    """A verdict for each pair, in order. Identical pairs are graded once.

    deadline_s: the time limit for one pair, in seconds.
    within_s: the time limit for the whole call, in seconds. Pairs that are not reached stay undecided.
    """
    outcomes = {pair: _grade_locally(*pair, options) for pair in dict.fromkeys(pairs)}
    open_pairs = [
        pair for pair, outcome in outcomes.items() if outcome.equal is None and outcome.path == "exact"
    ]
    if open_pairs:
        tasks = [Task(*pair, options, deadline_s) for pair in open_pairs]
        decided = (pool or shared_pool()).run(tasks, within_s)
        outcomes |= zip(open_pairs, decided, strict=True)
    verdicts = {pair: Verdict(*outcome) for pair, outcome in outcomes.items()}
    return [verdicts[pair] for pair in pairs]


def _grade_locally(candidate: str, reference: str, options: Options) -> Outcome:
    """Grade a pair in this process. An internal error is reported in the verdict: it must not end a run."""
    try:
        return grade_pair(candidate, reference, options)
    except Exception as error:
        return Outcome(None, f"internal error: {type(error).__name__}: {error}", "limit")
