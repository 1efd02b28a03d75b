"""Handles failed completions: a warning, or the end of the step."""

from collections.abc import Sequence

from posttrain.runtime.errors import StepError
from posttrain.runtime.step_context import StepContext
from posttrain.spec.step_params.artifact_params import GenerateStepParams


def check_missing(context: StepContext[GenerateStepParams], reasons: Sequence[str], total: int) -> None:
    """Raise StepError if more completions failed than `max_failed_ratio` allows, else emit a warning.

    Successful completions are logged, so another run requests only the failed ones.
    """
    context.facts["missing"] = len(reasons)
    if not reasons:
        return
    message = f"{len(reasons)} of {total} completions failed; last error: {reasons[-1]}"
    if len(reasons) > context.params.max_failed_ratio * total:
        advice = "run again to retry only these, or raise `max_failed_ratio` to continue without them"
        raise StepError(message, advice, retriable=True)
    context.events.emit("warning", message=message, advice="they are dropped, as `max_failed_ratio` allows")
