"""Measures the speed of SFT, DPO and GRPO next to a plain TRL script with equal settings, then with the
settings that the placement chooses, with Liger, packing and torch.compile. Profiles one step of each
method.

Tokens are those of the rows in a batch, prompt and completion. MFU counts the operations of the compiler's
estimate for each parameter and token: 6, 2 more with recomputation, 2 more for a reference model. The time of
GRPO includes its rollouts, whose operations are not counted.
"""

import json
import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from perf.cuda import plain_trl
from perf.cuda.bench import Bench
from perf.cuda.forked import preload
from perf.cuda.methods import loss_verdict
from perf.cuda.scale import Scale
from perf.cuda.step_profile import CATEGORIES, profile_step, read_profile
from perf.cuda.worker_runs import StageRuns, long_prompts, long_rows

from posttrain.compiler.facts.shape_from_config import shape_from_config
from posttrain.compiler.memory.generation_duration import effective_parameters
from posttrain.spec.architectures.model_shapes import Shape

_SKIPPED = 2  # first steps, which compile kernels and fill the allocator


class Case(NamedTuple):
    stage: str
    method: str
    text: str
    compared: bool = False  # with a TRL script
    profiled: bool = False


def speed_cases(scale: Scale) -> list[Case]:
    """The compared and the default settings of each method first, then the options of SFT."""
    rows, (_, long) = scale.rows, scale.lengths
    base = f"max_steps: {scale.timed_steps}, learning_rate: 1.0e-6, save_steps: {scale.timed_steps}"
    micro = f"micro_batch_size: {scale.micro_batch}, "
    found: list[Case] = []
    for method in ("sft", "dpo", "grpo"):
        common = f"train: {method}, model: small, on_failure: continue, "
        if method == "grpo":
            common += (
                "reward: solution, data: asked, placement: {rollouts: {engine: transformers}}, params: {"
            )
            own = (
                f"num_prompts: {rows // 4}, num_generations: 4, on_constant_reward: warn,"
                f" max_completion_length: {scale.lengths[0]}, {base}"
            )
        else:
            common += "data: rows, params: {"
            own = f"batch_size: {rows}, max_length: {long}, {base}"
        found.append(
            Case(
                f"{method}_equal",
                method,
                f"{common}{micro}{own}}}",
                compared=True,
                profiled=method in scale.profiled_methods,
            )
        )
        found.append(Case(f"{method}_placed", method, f"{common}{own}}}"))
    sft = f"train: sft, model: small, on_failure: continue, data: DATA, params: {{OPTION, {micro}"
    sft += f"batch_size: {rows}, max_length: {long}, {base}}}"
    for name, data, option in (
        ("liger", "rows", "use_liger_kernel: true"),
        ("compile", "rows", "torch_compile: true"),
        ("checkpointing", "rows", "gradient_checkpointing: true"),
        ("short_rows", "mixed", "packing: false"),
        ("packing", "mixed", "packing: true"),
    ):
        found.append(Case(f"sft_{name}", "sft", sft.replace("DATA", data).replace("OPTION", option)))
    # Compilation on a CPU takes a minute, and Liger needs a GPU.
    left_out = ("sft_compile", "sft_checkpointing", "grpo_placed", "dpo_placed") if scale.dry else ()
    return [case for case in found if case.stage not in left_out]


def run(bench: Bench) -> None:
    preload()
    scale = bench.scale
    cases = speed_cases(scale)
    long, count = scale.lengths[1], scale.rows * (scale.timed_steps + 1)
    mixed = [long_rows(1, max(12, long // (2 + number % 7)))[0] for number in range(count)]
    datasets = {
        "rows": long_rows(count, long),
        "mixed": mixed,
        "asked": long_prompts(count, scale.lengths[0]),
    }
    runs = StageRuns(bench, "speed", {case.stage: case.text for case in cases}, ("small",), datasets)
    config = json.loads((bench.model("small") / "config.json").read_bytes())
    shape = shape_from_config("small", config)
    assert shape is not None, "the compiler knows the architecture"
    head = ["stage", "micro-batch", "step, s", "tokens/s", "MFU", "TRL step, s", "stage / TRL", "losses"]
    note = f"Medians of the steps after the first {_SKIPPED}."
    table = bench.report.table("Speed", head, note)
    for case in cases:
        bench.attempt(table, case.stage, 20, partial(_speed_row, bench, runs, shape, case))
    _report_profiles(bench, runs, [case for case in cases if case.profiled])


def _speed_row(bench: Bench, runs: StageRuns, shape: Shape, case: Case) -> list[Any]:
    events = runs.run(case.stage, seconds=150)
    seconds = [event["values"]["cost/step_seconds"] for event in _metrics(events)]
    step = statistics.median(seconds[_SKIPPED:])
    params = runs.step_json(case.stage)["params"]["params"]
    tokens = _tokens_per_step(events, params)
    mfu = model_operations(case.method, params, shape, tokens) / step / (bench.scale.device.tflops * 1e12)
    micro = params["micro_batch_size"]
    cells = [micro, step, round(tokens / step, 1), f"{mfu:.1%}"]
    if not case.compared:
        return cells
    inputs, step_json = runs.inputs(case.stage), runs.step_json(case.stage)
    plain = bench.fork(f"plain-{case.stage}", lambda: plain_trl.train_plain(step_json, inputs), 150)
    other = statistics.median(plain["step_seconds"][_SKIPPED:])
    verdict, largest = loss_verdict([event["values"]["loss"] for event in _metrics(events)], plain["losses"])
    return [*cells, other, f"{step / other:.3f}", f"{verdict}, {largest:.2g}" if largest else verdict]


def model_operations(method: str, params: Mapping[str, Any], shape: Shape, tokens: float) -> float:
    """The operations of one optimizer step on `tokens`, with all weights. The reference model of DPO reads
    every row once; GRPO has one only with a KL term."""
    reference = method == "dpo" or (method == "grpo" and params["beta"] > 0)
    factor = 6 + 2 * bool(params["gradient_checkpointing"]) + 2 * reference
    return factor * tokens * effective_parameters(shape, tokens / _rows_per_step(params))


def _metrics(events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [e for e in events if e["kind"] == "metrics" and "cost/step_seconds" in e["values"]]


def _rows_per_step(params: Mapping[str, Any]) -> int:
    """Sequences of an optimizer step; a pair is two."""
    if "num_prompts" in params:
        return params["num_prompts"] * params["num_generations"]
    return params["batch_size"] * (2 if "beta" in params else 1)


def _tokens_per_step(events: Sequence[dict[str, Any]], params: dict[str, Any]) -> float:
    """The mean of the tokens that the trainer counted."""
    counted = [
        event["values"]["cost/tokens"] for event in _metrics(events) if "cost/tokens" in event["values"]
    ]
    if counted:
        return statistics.fmean(counted)
    return float(_rows_per_step(params) * params["max_length"])


def _report_profiles(bench: Bench, runs: StageRuns, cases: Sequence[Case]) -> None:
    head = ["stage", "share of the step", "seconds", "calls"]
    note = "One step under torch's profiler: kernels by what they do, then the largest. `idle`: none runs."
    table = bench.report.table("Where the time of a step goes", head, note)
    for case in cases:
        if bench.left() < 30:
            bench.report.add(table, case.stage, "not run: no time left", None, None)
            continue
        file = bench.folder / f"profile-{case.stage}.json"
        try:
            runs.run(case.stage, lambda file=file: profile_step(file), 120)
            for name, seconds, calls in read_profile(file):
                kind = name if name in CATEGORIES else f"kernel {name}"
                bench.report.add(table, case.stage, kind, seconds, calls)
        except Exception as error:
            bench.report.add(table, case.stage, f"failed: {error}"[:300], None, None)
