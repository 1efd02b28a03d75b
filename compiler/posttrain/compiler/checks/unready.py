"""Methods that are declared and cannot run yet."""

from posttrain.compiler.checks.examples import training
from posttrain.compiler.checks.subject import Subject
from posttrain.compiler.findings import Findings
from posttrain.spec.diagnostic import Code

NOT_YET = Code(
    "PT0651",
    "a method that cannot run yet",
    "warning",
    "This release knows the method's parameters and plans its stages, and does not train by it: a run"
    " stops at the stage and says so.",
    wrong=training("{train: ppo, model: base, data: sums.train, reward: right, params: {steps: 9}}"),
    right=training("{train: rloo, model: base, data: sums.train, reward: right, params: {steps: 9}}"),
)
# Not listed while every method runs: there is no example that would raise it.
CODES: tuple[Code, ...] = ()
_UNREADY: tuple[str, ...] = ()


def check_ready(subject: Subject, findings: Findings) -> None:
    if subject.method.name in _UNREADY:
        message = f"`{subject.method.name}` cannot run yet"
        help = "grpo and rloo learn from the same reward, without a value model"
        findings.add(NOT_YET, (*subject.path, "train"), message, help=help)
