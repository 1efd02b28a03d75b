"""The verb `gate`: decides whether metrics meet conditions."""

from posttrain.runtime.step_context import StepContext
from posttrain.spec.extension import Verb
from posttrain.spec.step_params.eval_params import GateStepParams

EXTENSION = Verb(name="gate", summary="A verdict over metrics: pass, fail or inconclusive.", version=4)


def run(context: StepContext[GateStepParams]) -> None:
    from posttrain.runtime.evaluation.gate_decision import run_gate

    run_gate(context)
