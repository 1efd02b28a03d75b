"""Runs every method with `recipe run`: all weights, LoRA and QLoRA. Compares the losses with plain TRL.

A first SFT learns to answer each sum with the correct number or the next one, equally often. Every other
stage starts from it. The losses of PPO are not compared: TRL has no PPO trainer.
"""

import json
import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

from perf.cuda import plain_trl
from perf.cuda.bench import Bench
from perf.cuda.forked import preload
from perf.cuda.recipes import RecipeRun, compile_recipe, run_recipe, write_recipe
from perf.cuda.scale import Scale

from posttrain.spec.plan import Plan, step_to_json

# The metric that a method must improve, and whether it falls.
_METRICS = {
    "grpo": ("reward", False),
    "sft": ("loss", True),
    "dpo": ("preference/margin", False),
    "reward_model": ("preference/margin", False),
    "ppo": ("reward", False),
}
_ADAPTERS = {"full": "", "lora": "adapter: {type: lora, r: 16}, ", "qlora": "adapter: {type: qlora, r: 16}, "}
_ENDS = 3  # steps whose mean is the first and the last value
# The losses of one step may differ by this share before they count as different.
LOSS_TOLERANCE = 0.01
_RUN_SHARE = 0.6  # of the time for `recipe run`; the rest is for the scripts


class Case(NamedTuple):
    stage: str
    method: str
    weights: str
    text: str


def run(bench: Bench) -> None:
    run_with_model(bench, "small")


def run_with_model(bench: Bench, model: str) -> None:
    preload()
    cases = method_cases(bench.scale, model)
    start = _training(bench.scale, "sft", "base", "full", bench.scale.warm_steps, bench.scale.learning_rate)
    stages = {
        "start": start.text,
        **{case.stage: f"{case.text}, on_failure: continue" for case in cases},
        **_generation_stages(),
    }
    folder = write_recipe(
        bench.new_folder("methods"), bench.scale, stages, models={"base": bench.model(model)}
    )
    plan = compile_recipe(folder)
    found = run_recipe(folder, folder / "home", bench.left() * _RUN_SHARE)
    head = [
        "stage",
        "ended",
        "metric",
        "first",
        "last",
        "learns",
        "step, s",
        "peak GiB",
        "TRL script",
        "largest",
    ]
    note = (
        f"`first` and `last` are means over {_ENDS} steps. `TRL script`: its losses next to those of the"
        " stage; `largest` is the largest relative difference of a step, `within` means at most"
        f" {LOSS_TOLERANCE:.0%}."
    )
    table = bench.report.table("Methods", head, note)
    for case in (start._replace(stage="start"), *cases):
        bench.attempt(table, case.stage, 0, partial(_method_row, bench, plan, found, case))
    _report_generation(bench, found)


def method_cases(scale: Scale, model: str) -> list[Case]:
    """All weights first, then the adapters; in each group the methods, the riskiest first."""
    found: list[Case] = []
    for weights in _ADAPTERS:
        rate = scale.learning_rate / 5 if weights == "full" else scale.learning_rate
        methods = (scale.full_methods if weights == "full" else scale.adapted_methods)[model]
        found += [_training(scale, method, "start", weights, scale.steps, rate) for method in methods]
    if find_spec("vllm") and not scale.dry:
        case = _training(scale, "grpo", "start", "full", scale.steps, scale.learning_rate / 5)
        text = case.text.replace("engine: transformers", "engine: vllm, mode: colocate")
        found.insert(0, Case("grpo_vllm", "grpo", "full, vLLM", text))
    return found


def _training(scale: Scale, method: str, model: str, weights: str, steps: int, rate: float) -> Case:
    # A checkpoint after the last step only: the stage's time should be that of its steps.
    params = f"max_steps: {steps}, learning_rate: {rate}, save_steps: {steps}"
    data = "both" if model == "base" else "sums"
    match method:
        case "grpo":
            more = (
                "reward: solution, placement: {rollouts: {engine: transformers}}, params: {num_prompts: 9,"
                f" num_generations: 8, micro_batch_size: 72, max_completion_length: 6, {params}}}"
            )
        case "ppo":
            more = (
                "reward: solution, params: {batch_size: 72, micro_batch_size: 72, num_ppo_epochs: 2,"
                f" max_completion_length: 6, {params}}}"
            )
        case _:
            more = f"params: {{batch_size: 27, micro_batch_size: 27, max_length: 64, {params}}}"
    text = f"train: {method}, model: {model}, {_ADAPTERS[weights]}data: {data}, {more}"
    return Case(f"{method}_{weights}", method, weights, text)


def _generation_stages() -> dict[str, str]:
    """An eval and a generation with each engine that is installed."""
    sampling = "sampling: {max_tokens: 6, batch_size: 81, temperature: 1.0, n: 2}, on_failure: continue"
    engines = ["transformers", *(["vllm"] if find_spec("vllm") else [])]
    found: dict[str, str] = {}
    for engine in engines:
        tail = f"data: sums, reward: solution, engine: {engine}, {sampling}"
        found[f"eval_{engine}"] = f"eval: start, metrics: {{right: right}}, {tail}"
        found[f"generate_{engine}"] = f"generate: start, {tail}"
    return found


def _method_row(bench: Bench, plan: Plan, found: RecipeRun, case: Case) -> list[Any]:
    name, falls = _METRICS[case.method]
    values = found.metrics(case.stage, name)
    product = found.product(case.stage)
    if product is None:
        return [f"no: {found.failure(case.stage)}"]
    first, last = statistics.fmean(values[:_ENDS]), statistics.fmean(values[-_ENDS:])
    seconds = statistics.median(found.metrics(case.stage, "cost/step_seconds")[1:])
    peak = max(found.metrics(case.stage, "cost/memory_mb"), default=0.0) / 1024
    learned = last < first if falls else last > first
    cells = [True, name, first, last, learned, round(seconds, 4), round(peak, 2)]
    return [*cells, *_compare(bench, plan, found, case)]


def _compare(bench: Bench, plan: Plan, found: RecipeRun, case: Case) -> list[Any]:
    """Whether the losses are those of a TRL script, and the largest relative difference."""
    if case.method not in plain_trl.METHODS or "vLLM" in case.weights:
        return ["none", None]
    if bench.left() < 15:
        return ["not run: no time left", None]
    step = json.loads(step_to_json(plan.step(case.stage)))
    products = {role: found.product(source["step"]) for role, source in step["inputs"].items()}
    inputs = {role: str(product.files) for role, product in products.items() if product is not None}
    plain = bench.fork(f"plain-{case.stage}", lambda: plain_trl.train_plain(step, inputs), 120)
    return loss_verdict(found.metrics(case.stage, "loss"), plain["losses"])


def loss_verdict(ours: Sequence[float], plain: Sequence[float]) -> list[Any]:
    if len(ours) != len(plain):
        return [f"other number of steps: {len(plain)}", None]
    if list(ours) == list(plain):
        return ["identical", 0.0]
    # The loss of GRPO is near zero in every step, so differences are relative to the largest one.
    scale = max(map(abs, plain)) or 1.0
    largest = max(abs(a - b) for a, b in zip(ours, plain, strict=True)) / scale
    return ["within" if largest <= LOSS_TOLERANCE else "differs", largest]


def _report_generation(bench: Bench, found: RecipeRun) -> None:
    head = ["stage", "ended", "completions", "seconds", "result"]
    table = bench.report.table("Evaluation and generation", head, "From the product of the first SFT.")
    for stage in _generation_stages():
        bench.attempt(table, stage, 0, partial(_generation_row, found, stage))


def _generation_row(found: RecipeRun, stage: str) -> list[Any]:
    product = found.product(stage)
    if product is None:
        return [f"no: {found.failure(stage)}"]
    facts: Mapping[str, Any] = product.facts
    rows = facts.get("completions") or facts.get("rows")
    metric = facts.get("metrics", {}).get("right", {})
    shown = f"right {metric['value']:.3f}" if metric else ""
    return [True, rows, product.cost.get("seconds"), shown]
