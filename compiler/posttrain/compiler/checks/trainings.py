"""All checks over training stages, in one list: adding one is its file and its line here."""

from collections.abc import Callable, Mapping, Sequence

from posttrain.compiler.checks import (
    adapters,
    amounts,
    boundaries,
    carrying,
    head,
    lengths,
    rates,
    trl,
)
from posttrain.compiler.checks.subject import Subject
from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.resolution.names import Named
from posttrain.compiler.stages.training import Training
from posttrain.spec.extension import Catalog

Check = Callable[[Subject, Findings], None]
_CHECKS: tuple[Check, ...] = (
    trl.check_trl,
    rates.check_rate,
    amounts.check_beta,
    amounts.check_batch,
    amounts.check_group,
    amounts.check_temperature,
    lengths.check_lengths,
    boundaries.check_boundary,
    adapters.check_targets,
    adapters.check_scale,
    adapters.check_quantised,
    adapters.check_dropout,
    head.check_head,
    carrying.check_reference,
)
CODES = (
    *trl.CODES,
    *rates.CODES,
    *amounts.CODES,
    *lengths.CODES,
    *boundaries.CODES,
    *adapters.CODES,
    *head.CODES,
    *carrying.CODES,
)


def check_trainings(
    named: Named,
    trainings: Mapping[str, Training],
    trained: Sequence[Subject],
    catalog: Catalog,
    findings: Findings,
) -> None:
    """Hold every training stage, beside what it comes from, to all checks."""
    found = {subject.name: subject for subject in trained}
    for subject in trained:
        for check in _CHECKS:
            check(subject, findings)
        carrying.check_carried(subject, found.get(subject.before or ""), findings)
    carrying.check_writers(named, trainings, findings)
    carrying.check_scorers(named, trainings, catalog, findings)
