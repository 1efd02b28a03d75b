"""The estimated memory, time and cost of a stage on its target: parts, terms, reasons and assumptions."""

from collections.abc import Iterable
from typing import Any

from posttrain.compiler.memory.duration import ExpectedWork, TimeShare, estimate_duration
from posttrain.compiler.memory.memory_estimate import MemoryEstimate
from posttrain.compiler.memory.storage_duration import checkpoint_share, startup_share
from posttrain.compiler.memory.workload import Workload
from posttrain.compiler.placement.assumed_lengths import MEAN_COMPLETION_SHARE, MEAN_ROW_SHARE
from posttrain.compiler.placement.held_out_duration import HeldOutWork, held_out_shares
from posttrain.compiler.placement.inloop_evaluation import EvaluationWork, evaluation_shares
from posttrain.compiler.placement.node_layout import server_node_count
from posttrain.compiler.placement.placement_search import EvaluatedPlacement
from posttrain.compiler.placement.stage_workload import (
    StageRequirements,
    expected_work,
)
from posttrain.compiler.placement.target import GB, Target

ROW_COUNT_UNKNOWN = "the number of rows is not known before the run: set `size` of the dataset"


def training_estimate_record(
    stage: StageRequirements, chosen: EvaluatedPlacement, target: Target, notes: Iterable[str]
) -> dict[str, Any]:
    """Return the estimate of a training. `notes` are assumptions on its evaluations."""
    work = chosen.workload
    found = memory_record(chosen.estimate, target)
    if target.gpus and stage.steps:
        gpus = work.gpus + (work.rollout.gpus if work.rollout else 0)
        expected = expected_work(stage)
        shares = (
            startup_share(work, target.device),
            *estimate_duration(work, target.device, expected).shares,
            *evaluation_shares(work, stage.evaluations, target.device),
            *held_out_shares(work, stage.held_out, expected.tokens_per_row, target.device),
            checkpoint_share(work, target.device, stage.checkpoints),
        )
        found |= time_record(shares, gpus, target)
    if target.gpus and (not stage.steps or any(one.rows is None for one in _evaluations(stage))):
        found["unknown_reason"] = ROW_COUNT_UNKNOWN
    assumed = [*_assumptions(stage), *notes, *_headroom_note(chosen, target)]
    return {**found, "why": _placement_reasons(chosen, target), "assumes": assumed}


def _evaluations(stage: StageRequirements) -> Iterable[EvaluationWork | HeldOutWork]:
    return (*stage.evaluations, *((stage.held_out,) if stage.held_out is not None else ()))


def generation_estimate_record(
    work: Workload, memory: MemoryEstimate, schedule: ExpectedWork | None, gpus: int, target: Target
) -> dict[str, Any]:
    """Return the estimate of a stage that only generates, on this number of GPUs."""
    found = memory_record(memory, target)
    if schedule is not None and target.gpus:
        shares = (
            startup_share(work, target.device),
            *estimate_duration(work, target.device, schedule).shares,
        )
        found |= time_record(shares, gpus, target)
    return found


def memory_record(memory: MemoryEstimate, target: Target) -> dict[str, Any]:
    """Return the memory of one device with its terms."""
    return {
        "memory_gb": _to_gb(memory.total),
        "limit_gb": _to_gb(memory.limit) if target.memory_known else None,
        "peak_phase": memory.peak_phase,
        "terms": [
            {"name": t.name, "gb": _to_gb(t.bytes), "why": t.why}
            for t in sorted(memory.terms, key=lambda t: -t.bytes)
        ],
    }


def time_record(shares: Iterable[TimeShare], gpus: int, target: Target) -> dict[str, Any]:
    """Return the time and the price of this number of GPUs, in total and for each part."""
    price = gpus * target.device.dollars_per_hour / 3600
    return total_record([part_record(one, price) for one in shares])


def part_record(share: TimeShare, price: float) -> dict[str, Any]:
    """Return one part of the time; the price is that of a second of the GPUs."""
    return {
        "name": share.name,
        "seconds": round(_middle(share), 1),
        "seconds_min": round(share.min_seconds, 1),
        "seconds_max": round(share.max_seconds, 1),
        "dollars": round(_middle(share) * price, 4),
        "why": share.why,
    }


def total_record(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the sums of the parts, and the parts."""
    return {
        **{
            name: round(sum(one[name] for one in parts)) for name in ("seconds", "seconds_min", "seconds_max")
        },
        "dollars": round(sum(one["dollars"] for one in parts), 2),
        "parts": parts,
    }


def _middle(share: TimeShare) -> float:
    """Return the expected time: the geometric mean, since the bounds are factors apart."""
    return (share.min_seconds * share.max_seconds) ** 0.5


def _placement_reasons(chosen: EvaluatedPlacement, target: Target) -> list[str]:
    """Return the reasons for the choice as text."""
    choice, work = chosen.choice, chosen.workload
    batch = f"{choice.micro_batch_size} x {work.accumulation} x {choice.processes}"
    reasons = [f"micro-batch x accumulation x processes: {batch}"]
    if choice.nodes > 1:
        reasons.append(f"{choice.nodes} nodes, {choice.processes // choice.nodes} processes on each")
    if choice.strategy not in ("single", "ddp"):
        reasons.append(f"{choice.strategy}: one copy per GPU does not fit on {target.display_name}")
    if choice.gradient_checkpointing and target.gpus:
        reasons.append("gradient checkpointing: needed, or faster because it allows a larger micro-batch")
    rollout = choice.rollout
    if rollout is not None and rollout.engine == "vllm":
        place = "on the GPUs of the training" if rollout.colocated else "on separate GPUs"
        place = "on a node of its own" if server_node_count(choice.processes, rollout.gpus, target) else place
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


def _headroom_note(chosen: EvaluatedPlacement, target: Target) -> list[str]:
    """Return how much memory the placement leaves free for errors of the estimate."""
    if not target.gpus:
        return []
    wanted = target.memory_headroom
    if chosen.fits(wanted):
        return [f"{wanted:.0%} of a GPU's memory stay free for errors of the estimate (memory_headroom)"]
    free = max(0.0, chosen.estimate.headroom / chosen.estimate.limit)
    return [f"only {free:.0%} of a GPU's memory stay free, less than the memory_headroom of {wanted:.0%}"]


def _to_gb(size: float) -> float:
    return round(size / GB, 2)
