"""Decides a gate: every condition is shown to hold, shown not to hold, or left open by the data."""

from posttrain.runtime.context import Context
from posttrain.spec.extension import Verb

EXTENSION = Verb(name="gate", summary="A verdict over metrics: pass, fail or inconclusive.", version=3)


def run(context: Context) -> None:
    from posttrain.runtime.evals.ruling import rule

    rule(context)
