"""Reports stages that do not fit in memory, with the memory terms and the smallest changes that fit."""

from posttrain.compiler.checks.trained_model import TrainedModel
from posttrain.compiler.checks.training_examples import published_example
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.memory.fit_suggestions import suggest_fits
from posttrain.compiler.memory.memory_terms import format_gib
from posttrain.compiler.placement.placement_search import EvaluatedPlacement
from posttrain.compiler.placement.target import Target
from posttrain.spec.diagnostic import Code

_SFT = "params: {epochs: 1, batch_size: 4}"
_H100 = ("recipe: 1\n", "recipe: 1\nhardware: {gpus: 1xL4-24GB}\n")
_LARGE_BATCH = "params: {epochs: 1, batch_size: 64, micro_batch_size: 64, gradient_checkpointing: false}"
OUT_OF_MEMORY = Code(
    "PT1005",
    "model does not fit in memory",
    "error",
    "The peak memory of the stage exceeds the memory of one device of the target. The help lists the largest"
    " terms of the peak, and the smallest changes that were computed to fit.",
    wrong=published_example(_H100, (_SFT, _LARGE_BATCH)),
    right=published_example(_H100, (_SFT, "params: {epochs: 1, batch_size: 64}")),
)
CODES = (OUT_OF_MEMORY,)
_MAX_TERMS, _MAX_SUGGESTIONS = 6, 4


def report_out_of_memory(
    trained_model: TrainedModel, chosen: EvaluatedPlacement, target: Target, diagnostics: Diagnostics
) -> None:
    found = chosen.estimate
    if found.start_error is not None:
        message = f"`{trained_model.name}`: {found.start_error}"
    else:
        each = "each of " if chosen.choice.processes > 1 else ""
        many = f"{chosen.choice.processes} " if chosen.choice.processes > 1 else ""
        message = (
            f"`{trained_model.name}` needs {format_gib(found.total)} on {each}{many}{target.display_name},"
            f" which has {format_gib(found.limit)}"
        )
    diagnostics.add(OUT_OF_MEMORY, (*trained_model.path, "train"), message, help=_help_text(chosen, target))


def _help_text(chosen: EvaluatedPlacement, target: Target) -> str:
    terms = sorted(chosen.estimate.terms, key=lambda t: -t.bytes)
    lines = [f"peak memory ({chosen.estimate.peak_phase}):"]
    lines += [f"  {format_gib(t.bytes):>10}  {t.name}: {t.why}" for t in terms[:_MAX_TERMS]]
    left = sum(t.bytes for t in terms[_MAX_TERMS:])
    if left:
        lines.append(f"  {format_gib(left):>10}  the rest")
    suggestions = suggest_fits(chosen.workload, target.device)[:_MAX_SUGGESTIONS]
    if suggestions:
        lines.append("changes that fit, the smallest first:")
        lines += [f"  {format_gib(r.estimate.total):>10}  {r.change}" for r in suggestions]
    else:
        lines.append("no change of this stage alone fits")
    return "\n".join(lines)
