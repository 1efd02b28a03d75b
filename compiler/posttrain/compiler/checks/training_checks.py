"""The list of all checks of training stages. To add a check, add its file and its line here."""

from collections.abc import Callable, Mapping, Sequence

from posttrain.compiler.checks import (
    adapter_combinations,
    adapter_config,
    adapter_handoff,
    adapter_patterns,
    checkpoint_alignment,
    context_length,
    hyperparameter_ranges,
    learning_rates,
    lm_head_adapter,
    packing,
    trl_args,
    untrained_tokens,
)
from posttrain.compiler.checks.trained_model import TrainedModel
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.resolution.name_resolution import ResolvedRecipe
from posttrain.compiler.stages.train_stage import CheckedTraining
from posttrain.compiler.text.compile_request import CompileRequest

Check = Callable[[TrainedModel, Diagnostics], None]
_CHECKS: tuple[Check, ...] = (
    trl_args.check_trl_args,
    learning_rates.check_learning_rate,
    hyperparameter_ranges.check_beta,
    hyperparameter_ranges.check_batch_size,
    hyperparameter_ranges.check_num_generations,
    hyperparameter_ranges.check_temperature,
    context_length.check_training_lengths,
    checkpoint_alignment.check_save_steps,
    adapter_config.check_target_modules,
    adapter_patterns.check_adapter_patterns,
    adapter_combinations.check_adapter_combinations,
    adapter_config.check_lora_scale,
    adapter_config.check_quantized_training,
    adapter_config.check_lora_dropout,
    lm_head_adapter.check_lm_head_adapter,
    untrained_tokens.check_untrained_tokens,
    packing.check_packing,
    adapter_handoff.check_reference,
)
CODES = (
    *trl_args.CODES,
    *learning_rates.CODES,
    *hyperparameter_ranges.CODES,
    *context_length.CODES,
    *checkpoint_alignment.CODES,
    *adapter_config.CODES,
    *adapter_patterns.CODES,
    *adapter_combinations.CODES,
    *lm_head_adapter.CODES,
    *untrained_tokens.CODES,
    *packing.CODES,
    *adapter_handoff.CODES,
)


def check_training_stages(
    resolved: ResolvedRecipe,
    trainings: Mapping[str, CheckedTraining],
    trained: Sequence[TrainedModel],
    request: CompileRequest,
    diagnostics: Diagnostics,
) -> None:
    """Run all checks on every training stage, with the stage that its model comes from."""
    by_name = {subject.name: subject for subject in trained}
    for subject in trained:
        for check in _CHECKS:
            check(subject, diagnostics)
        previous = by_name.get(subject.previous_stage or "")
        adapter_handoff.check_existing_adapter(subject, previous, diagnostics)
        adapter_combinations.check_continued_reference(subject, previous, diagnostics)
    adapter_handoff.check_generative_models(resolved, trainings, request, diagnostics)
    adapter_handoff.check_scoring_models(resolved, trainings, request.catalog, diagnostics)
