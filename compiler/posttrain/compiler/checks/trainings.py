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
from posttrain.compiler.checks.subject import TrainedModel
from posttrain.compiler.diagnosis.findings import Diagnostics
from posttrain.compiler.resolution.names import ResolvedRecipe
from posttrain.compiler.stages.training import CheckedTraining
from posttrain.spec.extension import Catalog

Check = Callable[[TrainedModel, Diagnostics], None]
_CHECKS: tuple[Check, ...] = (
    trl.check_trl_args,
    rates.check_learning_rate,
    amounts.check_beta,
    amounts.check_batch_size,
    amounts.check_num_generations,
    amounts.check_temperature,
    lengths.check_training_lengths,
    boundaries.check_save_steps,
    adapters.check_target_modules,
    adapters.check_lora_scale,
    adapters.check_quantized_training,
    adapters.check_lora_dropout,
    head.check_lm_head_adapter,
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


def check_training_stages(
    named: ResolvedRecipe,
    trainings: Mapping[str, CheckedTraining],
    trained: Sequence[TrainedModel],
    catalog: Catalog,
    findings: Diagnostics,
) -> None:
    """Hold every training stage, beside what it comes from, to all checks."""
    found = {subject.name: subject for subject in trained}
    for subject in trained:
        for check in _CHECKS:
            check(subject, findings)
        carrying.check_existing_adapter(subject, found.get(subject.previous_stage or ""), findings)
    carrying.check_generative_models(named, trainings, findings)
    carrying.check_scoring_models(named, trainings, catalog, findings)
