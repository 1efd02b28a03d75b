"""What is done about completions that never came."""

from collections.abc import Sequence

from posttrain.runtime.context import Context
from posttrain.runtime.faults import StepFault


def check_lost(context: Context, reasons: Sequence[str], total: int) -> None:
    """End the step when more was lost than it may lose; else say what is left out.

    What came is kept where the step goes on: another run asks for the rest alone.
    """
    context.facts["lost"] = len(reasons)
    if not reasons:
        return
    message = f"{len(reasons)} of {total} completions never came; the last: {reasons[-1]}"
    if len(reasons) > context.params["may_lose"] * total:
        advice = "run again to ask for these alone, or write `may_lose` to go on without them"
        raise StepFault(message, advice, retriable=True)
    context.events.emit("warning", message=message, advice="they are left out; `may_lose` allows it")
