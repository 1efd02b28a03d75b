"""Stages that do not fit into memory: the terms, and the smallest changes that would do."""

from posttrain.compiler.checks.examples import published
from posttrain.compiler.checks.subject import Subject
from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.memory.remedies import remedies
from posttrain.compiler.memory.terms import gib
from posttrain.compiler.placement.choose import Chosen
from posttrain.compiler.placement.target import Target
from posttrain.spec.diagnostic import Code

_SFT = "params: {epochs: 1, batch: 4}"
_H100 = ("recipe: 1\n", "recipe: 1\nhardware: {gpus: 1xL4-24GB}\n")
_LARGE = "params: {epochs: 1, batch: 64, micro_batch: 64, gradient_checkpointing: false}"
TOO_LARGE = Code(
    "PT1005",
    "a stage that does not fit into memory",
    "error",
    "At its largest moment the stage holds more than one device of the target has. The terms say what"
    " of, the changes below them were computed to fit, the least first.",
    wrong=published(_H100, (_SFT, _LARGE)),
    right=published(_H100, (_SFT, "params: {epochs: 1, batch: 64}")),
)
CODES = (TOO_LARGE,)
_TERMS, _REMEDIES = 6, 4


def report_misfit(subject: Subject, chosen: Chosen, target: Target, findings: Findings) -> None:
    found = chosen.estimate
    if found.refusal is not None:
        message = f"`{subject.name}`: {found.refusal}"
    else:
        each = "each of " if chosen.choice.processes > 1 else ""
        many = f"{chosen.choice.processes} " if chosen.choice.processes > 1 else ""
        message = (
            f"`{subject.name}` takes {gib(found.total)} on {each}{many}{target.named}, which has"
            f" {gib(found.limit)}"
        )
    findings.add(TOO_LARGE, (*subject.path, "train"), message, help=_help(chosen, target))


def _help(chosen: Chosen, target: Target) -> str:
    terms = sorted(chosen.estimate.terms, key=lambda t: -t.bytes)
    lines = [f"at its largest moment ({chosen.estimate.moment}):"]
    lines += [f"  {gib(t.bytes):>10}  {t.name}: {t.why}" for t in terms[:_TERMS]]
    left = sum(t.bytes for t in terms[_TERMS:])
    if left:
        lines.append(f"  {gib(left):>10}  the rest")
    found = remedies(chosen.workload, target.device)[:_REMEDIES]
    if found:
        lines.append("what would fit, the least change first:")
        lines += [f"  {gib(r.estimate.total):>10}  {r.change}" for r in found]
    else:
        lines.append("no change of the stage alone would fit")
    return "\n".join(lines)
