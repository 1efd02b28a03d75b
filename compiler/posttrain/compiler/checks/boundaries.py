"""Checkpoints that land where the method can resume exactly."""

from posttrain.compiler.checks.examples import training
from posttrain.compiler.checks.subject import Subject
from posttrain.compiler.diagnosis.findings import Findings
from posttrain.spec.diagnostic import Code

_STAGE = (
    "{train: grpo, model: base, data: sums.train, reward: right,"
    " params: {steps: 40, buffer: 4, checkpoint_every: %d}}"
)
ROUNDED = Code(
    "PT0639",
    "checkpoints moved to where a stage resumes exactly",
    "note",
    "Completions that are written at once are learnt from over `buffer` x `iterations` steps. A run that"
    " went on from the middle of them would write others, so checkpoints are made after every so many"
    " of these steps, rounded up.",
    wrong=training(_STAGE % 10),
    right=training(_STAGE % 12),
)
CODES = (ROUNDED,)


def check_boundary(subject: Subject, findings: Findings) -> None:
    every, boundary = subject.value("checkpoint_every"), subject.training.boundary
    if every is None or boundary is None or every % boundary == 0:
        return
    rounded = -(-every // boundary) * boundary
    message = f"checkpoints are made every {rounded} steps: the method resumes exactly every {boundary}"
    findings.add(ROUNDED, subject.at("checkpoint_every"), message)
