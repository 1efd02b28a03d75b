"""What is done about completions that never came."""

from collections.abc import Sequence

from posttrain.runtime.errors import StepError
from posttrain.runtime.step_context import StepContext


def check_missing(context: StepContext, reasons: Sequence[str], total: int) -> None:
    """End the step when more are missing than `max_failed_ratio` allows; else warn of them.

    What came is kept where the step goes on: another run asks for the rest alone.
    """
    context.facts["missing"] = len(reasons)
    if not reasons:
        return
    message = f"{len(reasons)} of {total} completions never came; the last: {reasons[-1]}"
    if len(reasons) > context.params["max_failed_ratio"] * total:
        advice = "run again to ask for these alone, or write `max_failed_ratio` to go on without them"
        raise StepError(message, advice, retriable=True)
    context.events.emit("warning", message=message, advice="they are left out; `max_failed_ratio` allows it")
