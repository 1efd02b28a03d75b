"""The estimated memory, time and cost of a stage on its target, with terms, reasons and assumptions."""

from typing import Any

from posttrain.compiler.memory.duration import Duration, ExpectedWork, estimate_duration
from posttrain.compiler.memory.memory_estimate import MemoryEstimate
from posttrain.compiler.memory.workload import Workload
from posttrain.compiler.placement.placement_search import EvaluatedPlacement
from posttrain.compiler.placement.stage_workload import (
    MEAN_COMPLETION_SHARE,
    MEAN_ROW_SHARE,
    StageRequirements,
    expected_work,
)
from posttrain.compiler.placement.target import GB, Target

ROW_COUNT_UNKNOWN = "the number of rows is not known before the run: set `size` of the dataset"
# The seconds before the first step, in which a process imports libraries, loads weights and compiles.
_STARTUP_SECONDS = 60.0


def training_estimate_record(
    stage: StageRequirements, chosen: EvaluatedPlacement, target: Target
) -> dict[str, Any]:
    schedule = expected_work(stage)
    known = schedule if stage.steps else None
    found = estimate_record(chosen.workload, chosen.estimate, known, target)
    unknown = {"unknown_reason": ROW_COUNT_UNKNOWN} if known is None and target.gpus else {}
    return {**found, **unknown, "why": _placement_reasons(chosen, target), "assumes": _assumptions(stage)}


def estimate_record(
    work: Workload, memory: MemoryEstimate, schedule: ExpectedWork | None, target: Target
) -> dict[str, Any]:
    """Return the memory of one device with its terms, and time and price if the amount of work is known."""
    found: dict[str, Any] = {
        "memory_gb": _to_gb(memory.total),
        "limit_gb": _to_gb(memory.limit) if target.memory_known else None,
        "peak_phase": memory.peak_phase,
        "terms": [
            {"name": t.name, "gb": _to_gb(t.bytes), "why": t.why}
            for t in sorted(memory.terms, key=lambda t: -t.bytes)
        ],
    }
    if schedule is not None and target.gpus:
        found |= _time_record(estimate_duration(work, target.device, schedule), work, target)
    return found


def _time_record(duration: Duration, work: Workload, target: Target) -> dict[str, Any]:
    least, most = duration.min_seconds + _STARTUP_SECONDS / 2, duration.max_seconds + _STARTUP_SECONDS
    price = work.gpus * target.device.dollars_per_hour / 3600
    middle = (least * most) ** 0.5
    return {
        "seconds": round(middle),
        "seconds_min": round(least),
        "seconds_max": round(most),
        "dollars": round(middle * price, 2),
        "shares": [
            {
                "name": s.name,
                "min_seconds": round(s.min_seconds),
                "max_seconds": round(s.max_seconds),
                "why": s.why,
            }
            for s in duration.shares
        ],
    }


def _placement_reasons(chosen: EvaluatedPlacement, target: Target) -> list[str]:
    """Return the reasons for the choice as text."""
    choice, work = chosen.choice, chosen.workload
    batch = f"{choice.micro_batch_size} x {work.accumulation} x {choice.processes}"
    reasons = [f"micro-batch x accumulation x processes: {batch}"]
    if choice.strategy not in ("single", "ddp"):
        reasons.append(f"{choice.strategy}: one copy per GPU does not fit on {target.display_name}")
    if choice.gradient_checkpointing and target.gpus:
        reasons.append("gradient checkpointing: needed, or faster because it allows a larger micro-batch")
    rollout = choice.rollout
    if rollout is not None and rollout.engine == "vllm":
        place = "on the GPUs of the training" if rollout.colocated else "on separate GPUs"
        sleep = ", in sleep mode during training" if rollout.enable_sleep_mode else ""
        over = f" over {rollout.tensor_parallel_size} GPUs" if rollout.tensor_parallel_size > 1 else ""
        reasons.append(f"vLLM {place}{over}, {rollout.gpu_memory_utilization:.0%} of a GPU{sleep}")
    return reasons


def _assumptions(stage: StageRequirements) -> list[str]:
    about = [stage.row_count_note] if stage.row_count_note else []
    if stage.completions_per_step:
        return [
            *about,
            f"prompts of at most {stage.prompt_tokens} tokens",
            f"mean completion length: {MEAN_COMPLETION_SHARE:.0%} of the maximum",
        ]
    return [*about, f"mean row length: {MEAN_ROW_SHARE:.0%} of {stage.length} tokens"]


def _to_gb(size: float) -> float:
    return round(size / GB, 2)
