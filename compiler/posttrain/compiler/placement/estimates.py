"""What a stage is estimated to take on its target, with the terms, the reasons and what is assumed."""

from typing import Any

from posttrain.compiler.memory.duration import Duration, Schedule, duration
from posttrain.compiler.memory.estimate import Estimate
from posttrain.compiler.memory.workload import Workload
from posttrain.compiler.placement.choose import Chosen
from posttrain.compiler.placement.target import GB, Target
from posttrain.compiler.placement.workloads import COMPLETION, ROW, Asked, amount

UNTOLD = "how many rows there are is known only when they are read: give the dataset a `size`"
_START = 60.0  # seconds in which a process imports, reads weights and compiles, before the first step


def training_estimate(stage: Asked, chosen: Chosen, target: Target) -> dict[str, Any]:
    schedule = amount(stage)
    known = schedule if stage.steps else None
    found = estimated(chosen.workload, chosen.estimate, known, target)
    untold = {"untold": UNTOLD} if known is None and target.gpus else {}
    return {**found, **untold, "why": _why(chosen, target), "assumes": _assumptions(stage)}


def estimated(work: Workload, memory: Estimate, schedule: Schedule | None, target: Target) -> dict[str, Any]:
    """Memory of one device with its terms; time and price where the amount of work is known."""
    found: dict[str, Any] = {
        "memory_gb": _gb(memory.total),
        "limit_gb": _gb(memory.limit) if target.bounded else None,
        "moment": memory.moment,
        "terms": [
            {"name": t.name, "gb": _gb(t.bytes), "why": t.why}
            for t in sorted(memory.terms, key=lambda t: -t.bytes)
        ],
    }
    if schedule is not None and target.gpus:
        found |= _time(duration(work, target.device, schedule), work, target)
    return found


def _time(took: Duration, work: Workload, target: Target) -> dict[str, Any]:
    least, most = took.least + _START / 2, took.most + _START
    price = work.gpus * target.device.dollars_per_hour / 3600
    middle = (least * most) ** 0.5
    return {
        "seconds": round(middle),
        "seconds_least": round(least),
        "seconds_most": round(most),
        "dollars": round(middle * price, 2),
        "shares": [
            {"name": s.name, "least": round(s.least), "most": round(s.most), "why": s.why}
            for s in took.shares
        ],
    }


def _why(chosen: Chosen, target: Target) -> list[str]:
    """The choice in words, as people would defend it."""
    choice, work = chosen.choice, chosen.workload
    batch = f"{choice.micro} x {work.accumulation} x {choice.processes}"
    said = [f"micro-batch x accumulation x processes: {batch}"]
    if choice.strategy not in ("single", "ddp"):
        said.append(f"{choice.strategy}: one copy a GPU does not fit on {target.named}")
    if choice.checkpointing and target.gpus:
        said.append("gradient checkpointing: faster with the micro-batch that it makes room for, or needed")
    rollout = choice.rollout
    if rollout is not None and rollout.engine == "vllm":
        place = "beside the training" if rollout.colocated else "on GPUs of its own"
        asleep = ", asleep while the model trains" if rollout.sleeps else ""
        over = f" over {rollout.tensor_parallel} GPUs" if rollout.tensor_parallel > 1 else ""
        said.append(f"vLLM {place}{over}, {rollout.utilisation:.0%} of a GPU{asleep}")
    return said


def _assumptions(stage: Asked) -> list[str]:
    about = [stage.about] if stage.about else []
    if stage.written:
        return [
            *about,
            f"prompts of {stage.prompt} tokens at most",
            f"completions of {COMPLETION:.0%} of their longest length on average",
        ]
    return [*about, f"rows of {ROW:.0%} of {stage.length} tokens on average"]


def _gb(size: float) -> float:
    return round(size / GB, 2)
