"""Compares the predicted memory of stages with what torch allocates and reserves, term by term.

The worker runs the stages of a plan; hooks around its trainer measure the second step (`memory_meter.py`).
The prediction is that of the compiler for the same stages.
"""

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple
from unittest.mock import patch

from perf.cuda.bench import Bench
from perf.cuda.forked import preload
from perf.cuda.memory_meter import PHASES, measure_step
from perf.cuda.results import Table
from perf.cuda.scale import Scale
from perf.cuda.worker_runs import StageRuns, long_prompts, long_rows

from posttrain.compiler.memory.activations import micro_batch_memory
from posttrain.compiler.memory.memory_estimate import MemoryEstimate, estimate_memory
from posttrain.compiler.memory.training_memory import resident_terms
from posttrain.compiler.memory.workload import Workload
from posttrain.compiler.placement import training_placement
from posttrain.compiler.placement.assumed_lengths import ASSUMED_PROMPT_TOKENS
from posttrain.compiler.placement.placement_search import EvaluatedPlacement
from posttrain.runtime import atomic_io

_STATES = ("optimizer", "master weights")
# The phases of the prediction that fall into each phase of the measurement.
_PREDICTED_PHASES = {
    "before the loss": ("prompt", "generation"),
    "forward": ("end of forward", "reference forward"),
    "backward": ("loss, backward", "first layer, backward", "last layer, backward", "embeddings, backward"),
    "optimizer step": ("optimizer step",),
}
_OVERHEADS = ("CUDA context", "collectives", "allocator slack", "process")


class Case(NamedTuple):
    method: str
    model: str
    weights: str
    rows: int
    long: bool = False
    checkpointing: bool = False

    @property
    def stage(self) -> str:
        kept = "_checkpointing" if self.checkpointing else ""
        return f"{self.method}_{self.model}_{self.weights}{'_long' if self.long else ''}{kept}"


CASES = (
    Case("sft", "small", "full", 8),
    Case("sft", "medium", "lora", 4, long=True, checkpointing=True),
    Case("grpo", "small", "full", 16),
    Case("sft", "medium", "qlora", 4, long=True),
    Case("dpo", "small", "full", 4),
    Case("ppo", "small", "full", 8),
    Case("sft", "medium", "full", 4, long=True, checkpointing=True),
    Case("sft", "small", "lora", 8, long=True),
    Case("reward_model", "small", "full", 8),
    Case("dpo", "medium", "lora", 4, checkpointing=True),
    Case("sft", "small", "full", 4, long=True, checkpointing=True),
    Case("grpo", "medium", "lora", 16),
)
_DRY_CASES = (CASES[0], CASES[2], CASES[3])


def run(bench: Bench) -> None:
    preload()
    scale = bench.scale
    cases = _DRY_CASES if scale.dry else CASES
    short, long = scale.lengths
    datasets = {
        "short": long_rows(40, short),
        "long": long_rows(40, long),
        "asked": long_prompts(40, ASSUMED_PROMPT_TOKENS),
    }
    stages = {case.stage: stage_text(case, scale) for case in cases}
    placed: dict[str, EvaluatedPlacement] = {}
    with patch.object(training_placement, "training_estimate_record", _recorder(placed)):
        runs = StageRuns(bench, "memory", stages, ("small", "medium"), datasets)
    head = ["stage", "predicted MiB", "allocated MiB", "error", "reserved + context MiB", "error", "plan, GB"]
    note = "`allocated`: predicted without the overheads of the process. `reserved`: with them."
    totals = bench.report.table("Peaks", head, note)
    head = ["stage", "term", "predicted MiB", "measured MiB", "error"]
    note = "Terms of the second step. Phases are peaks of everything that is allocated at the time."
    terms = bench.report.table("Terms", head, note)
    for case in cases:
        bench.attempt(totals, case.stage, 20, partial(_measure, bench, runs, placed, case.stage, terms))


def _recorder(placed: dict[str, EvaluatedPlacement]) -> Any:
    """The function that writes an estimate into a plan, which also records the placement. Stages with equal
    requirements are placed once, so a placement is found by its estimate."""
    original = training_placement.training_estimate_record

    def record(stage: Any, chosen: EvaluatedPlacement, *rest: Any) -> dict[str, Any]:
        found = original(stage, chosen, *rest)
        placed[json.dumps(found["terms"])] = chosen
        return found

    return record


def stage_text(case: Case, scale: Scale) -> str:
    length = scale.lengths[1 if case.long else 0]
    adapter = "" if case.weights == "full" else f"adapter: {{type: {case.weights}, r: 16}}, "
    rows = case.rows if not scale.dry else 2
    kept = str(case.checkpointing).lower()
    params = f"max_steps: 3, learning_rate: 1.0e-6, gradient_checkpointing: {kept}"
    common = f"train: {case.method}, model: {case.model}, {adapter}"
    match case.method:
        case "grpo":
            rows = max(4, rows)
            return (
                f"{common}data: asked, reward: solution, placement: {{rollouts: {{engine: transformers}}}},"
                f" params: {{num_prompts: {rows // 4}, num_generations: 4, micro_batch_size: {rows},"
                f" on_constant_reward: warn, max_completion_length: {length}, {params}}}"
            )
        case "ppo":
            return (
                f"{common}data: asked, reward: solution, params: {{batch_size: {rows},"
                f" micro_batch_size: {rows}, on_constant_reward: warn, num_ppo_epochs: 1,"
                f" max_completion_length: {length}, {params}}}"
            )
        case _:
            return (
                f"{common}data: {'long' if case.long else 'short'}, params: {{batch_size: {rows},"
                f" micro_batch_size: {rows}, max_length: {length}, {params}}}"
            )


def _measure(
    bench: Bench, runs: StageRuns, placed: Mapping[str, EvaluatedPlacement], stage: str, terms: Table
) -> list[Any]:
    planned = runs.step(stage).estimate
    assert planned is not None, "a plan has an estimate of every training"
    workload = placed[json.dumps(planned["terms"])].workload
    found = _measure_stage(bench, runs, stage)
    estimate = estimate_memory(workload, bench.scale.device)
    predicted = tensor_bytes(estimate)
    for name, (expected, measured) in compare_terms(workload, estimate, found).items():
        bench.report.add(terms, stage, name, mib(expected), mib(measured), error_text(expected, measured))
    whole = found["reserved"] + found["context"]
    return [
        mib(predicted),
        mib(found["allocated"]),
        error_text(predicted, found["allocated"]),
        mib(whole),
        error_text(estimate.total, whole),
        planned["memory_gb"],
    ]


def _measure_stage(bench: Bench, runs: StageRuns, stage: str) -> dict[str, int]:
    """The bytes of each phase. The process of the worker writes them to a file."""
    file = bench.folder / f"{stage}.json"

    @contextmanager
    def observe() -> Generator[None]:
        found: dict[str, int] = {}
        with measure_step(found):
            yield
        atomic_io.write_json(file, found)

    runs.run(stage, observe, 120)
    found = atomic_io.read_json(file)
    missing = {*PHASES, "weights", "optimizer", "gradients", "activations", "reserved"} - (found or {}).keys()
    if missing:
        raise ValueError(f"the stage ended before {', '.join(sorted(missing))} of the second step")
    return found


def tensor_bytes(estimate: MemoryEstimate) -> int:
    """The predicted peak without the overheads of the process."""
    return max(
        sum(term.bytes for term in phase.terms if term.name not in _OVERHEADS) for phase in estimate.phases
    )


def compare_terms(
    workload: Workload, estimate: MemoryEstimate, found: Mapping[str, int]
) -> dict[str, tuple[float, float]]:
    """Predicted and measured bytes by term."""
    resident = resident_terms(workload)
    step = micro_batch_memory(workload, workload.model)
    states = sum(term.bytes for term in resident if term.name.endswith(_STATES))
    last = next(phase for phase in estimate.phases if phase.name == "optimizer step")
    saved = step.saved_activations + step.head_activations + step.autocast_copies
    overhead = {term.name: term.bytes for phase in estimate.phases for term in phase.terms}
    return {
        "weights": (sum(term.bytes for term in resident) - states, found["weights"]),
        "optimizer": (states, found["optimizer"]),
        "gradients": (
            sum(term.bytes for term in last.terms if term.name.endswith("gradients")),
            found["gradients"],
        ),
        "saved activations": (saved, found["activations"]),
        **{name: (_phase_bytes(estimate, name), found[name]) for name in PHASES},
        "context": (overhead.get("CUDA context", overhead.get("process", 0)), found["context"]),
        "allocator slack": (
            max((term.bytes for term in estimate.terms if term.name == "allocator slack"), default=0),
            found["reserved"] - found["allocated"],
        ),
    }


def _phase_bytes(estimate: MemoryEstimate, measured: str) -> int:
    names = _PREDICTED_PHASES[measured]
    found = [phase for phase in estimate.phases if phase.name in names]
    return max(
        (sum(term.bytes for term in phase.terms if term.name not in _OVERHEADS) for phase in found), default=0
    )


def mib(size: float) -> float:
    return round(size / 2**20, 3)


def error_text(predicted: float, measured: float) -> str:
    """The error of the prediction. Without one, a phase is not predicted."""
    if predicted == 0 or measured == 0:
        return ""
    return f"{predicted / measured - 1:+.1%}"
