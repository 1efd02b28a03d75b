"""Measures exact resume of killed training stages, for every method with every strategy.

    python -m perf.resume [NAME ...] [--kills 1] [--seed 1]

from the root of the repository writes the tables of docs/resume.md, between the two markers. NAME is a row
or a strategy: only the named cells are measured again. perf/resume.json stores the results of all cells.

A cell trains a tiny model without interruption. It trains the model again, kills all its processes with
SIGKILL at a random instant between the first checkpoint and the end, and resumes. Every file of the product
must have the same digest. The product of a stage that keeps its best weights must equal the product of a
stage without evaluations that ends at the best step.
"""

import argparse
import json
import random
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from perf.resume_tables import STRATEGIES, Cell, write_tables
from perf.tool_rows import TOOL_CALLS, tool_recipe
from tests.recipe_command import wait_until
from tests.runtime.distributed.fsdp_on_cpu import fsdp_on_cpu_runner
from tests.runtime.distributed.test_multi_process import is_step_finished
from tests.runtime.methods.stage_harness import StageHarness, compile_or_errors, compile_plan, metrics, recipe

from posttrain.runtime.runners.process import ProcessRunner
from posttrain.runtime.store.products import Product
from posttrain.runtime.training.validation_loss import event_name
from posttrain.spec.plan import Plan, Step
from posttrain.spec.step_params.train_params import EVALUATION_DIR

HERE = Path(__file__).parent
RECORD = HERE / "resume.json"
# 64 rows are two steps, so the checkpoint of step 3 is in the middle of the second epoch.
_ROWS = "max_steps: 9, learning_rate: 1.0e-3, batch_size: 32, max_length: 64, save_steps: 3"
_SLOWER = _ROWS.replace("1.0e-3", "1.0e-4")
_PROMPTS = (
    "max_steps: 9, num_prompts: 32, num_generations: 2, learning_rate: 1.0e-3, max_completion_length: 6,"
    " save_steps: 3"
)
_WRITTEN = (
    "max_steps: 9, batch_size: 32, num_ppo_epochs: 3, learning_rate: 1.0e-3, max_completion_length: 6,"
    " save_steps: 3"
)
_BUFFERED = _PROMPTS.replace("save_steps: 3", "save_steps: 4")
_PAIRED = ("reward_model", "dpo", "ipo", "kto", "orpo", "cpo", "simpo")
_LORA = "adapter: {r: 4, lora_dropout: 0.1}"
# A constant learning rate, so that a shorter stage has the same weights.
_CONSTANT_SCHEDULE = "lr_scheduler_type: constant_with_warmup, warmup_steps: 0"
_EVALUATION = (
    "evaluate: {eval_steps: 2, evals: [check], metric_for_best_model: check.score, keep: best,"
    " greater_is_better: false, early_stopping_patience: 2}"
)
# The loss falls by less than the threshold, so the training stops early.
_HELD_OUT = (
    "evaluate: {eval_steps: 2, data: sums.test, metric_for_best_model: eval_loss, keep: best,"
    " early_stopping_threshold: 0.2, early_stopping_patience: 2}"
)
_CHECK = (
    "check: {eval: it, data: sums.test, reward: solution, metrics: {score: {mean: returns}},"
    " sampling: {max_tokens: 6, temperature: 0.8, n: 4}}"
)
# Each row: the method with its keys, and its params. ZeRO-3 keeps weights with fewer than 100,000 elements
# unsharded after their first use; the wider model has larger ones.
CASES: Mapping[str, tuple[str, str]] = {
    "sft": ("sft", _ROWS),
    **{method: (method, _ROWS) for method in _PAIRED},
    "grpo": ("grpo, reward: solution", _PROMPTS),
    "rloo": ("rloo, reward: solution", _PROMPTS),
    "ppo": ("ppo, reward: solution", _WRITTEN),
    "sft, a new adapter with dropout": (f"sft, {_LORA}", _ROWS),
    "dpo, a new adapter with dropout": (f"dpo, {_LORA}", _ROWS),
    "sft, DoRA": ("sft, adapter: {r: 4, use_dora: true}", _ROWS),
    "sft, ia3": ("sft, adapter: {type: ia3}", _ROWS),
    "sft, oft": ("sft, adapter: {type: oft, oft_block_size: 8}", _ROWS),
    "sft, vera": ("sft, adapter: {type: vera, r: 8}", _ROWS),
    TOOL_CALLS: ("sft", _ROWS.replace("max_length: 64", "max_length: 1024")),
    "sft, a wider model": ("sft", _SLOWER),
    "dpo, a wider model, synchronized reference": ("dpo", f"{_SLOWER}, ref_model_sync_steps: 2"),
    "grpo, a new adapter, KL penalty": (
        "grpo, reward: solution, adapter: {r: 4}",
        f"{_PROMPTS}, beta: 0.1",
    ),
    "grpo, several iterations per generation": (
        "grpo, reward: solution",
        f"{_BUFFERED}, num_iterations: 2, optimizer_steps_per_generation: 2, micro_batch_size: 16",
    ),
    "sft, evaluated, best weights": (f"sft, {_EVALUATION}", f"{_ROWS}, {_CONSTANT_SCHEDULE}"),
    "sft, a new adapter, evaluated, best weights": (
        f"sft, adapter: {{r: 4}}, {_EVALUATION}",
        f"{_ROWS}, {_CONSTANT_SCHEDULE}",
    ),
    "sft, a wider model, evaluated, best weights": (
        f"sft, {_EVALUATION}",
        f"{_SLOWER}, {_CONSTANT_SCHEDULE}",
    ),
    "grpo, evaluated, best weights": (
        f"grpo, reward: solution, {_EVALUATION}",
        f"{_PROMPTS}, {_CONSTANT_SCHEDULE}",
    ),
    **{
        f"{method}, held-out loss, best weights": (f"{method}, {_HELD_OUT}", f"{_ROWS}, {_CONSTANT_SCHEDULE}")
        for method in ("sft", "dpo")
    },
}
# The step of the first checkpoint.
_FIRST_CHECKPOINT = 3
_TIMEOUT = 300.0
_UNEXPECTED_ADVICE = "its log is record/"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tables", action="store_true", help="only regenerate the tables")
    parser.add_argument("names", nargs="*", choices=[[], *CASES, *STRATEGIES], default=[])
    arguments = parser.parse_args()
    if arguments.tables:
        write_tables(json.loads(RECORD.read_text()), CASES)
    else:
        measure(arguments.names, arguments.kills, random.Random(arguments.seed))


def measure(names: Sequence[str], kills: int, drawn: random.Random) -> None:
    with tempfile.TemporaryDirectory(prefix="posttrain-resume-") as folder:
        benches = BenchPool(Path(folder))
        for case, strategy in select_cells(names):
            found = measure_cell(benches.of(strategy), case, strategy, kills, drawn)
            save_cell(case, strategy, found)
            print(f"{case} | {strategy} | {found}", flush=True)
        benches.close()


def select_cells(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    rows = [case for case in CASES if case in names] or list(CASES)
    for strategy in [one for one in STRATEGIES if one in names] or STRATEGIES:
        for case in rows:
            yield case, strategy


class BenchPool:
    """Two test harnesses: one for FSDP, whose workers simulate GPUs, and one for the other strategies."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.benches: dict[bool, StageHarness] = {}

    def of(self, strategy: str) -> StageHarness:
        divided = strategy == "fsdp"
        if divided not in self.benches:
            folder = self.root / ("divided" if divided else "whole")
            folder.mkdir()
            self.benches[divided] = StageHarness(
                folder, fsdp_on_cpu_runner(folder) if divided else runner(folder)
            )
        return self.benches[divided]

    def close(self) -> None:
        for bench in self.benches.values():
            bench.runner.close()


def runner(folder: Path) -> ProcessRunner:
    found = ProcessRunner()
    found.prepare(compile_plan(recipe()), ["sft"], folder)
    return found


def stage(case: str, strategy: str) -> str:
    """The declaration of the stage, with its placement."""
    method, params = CASES[case]
    placed = "" if strategy == "single" else f"placement: {{num_processes: 2, strategy: {strategy}}}, "
    return f"it: {{train: {method}, model: sft, data: sums.train, {placed}params: {{{params}}}}}"


def recipe_text(case: str, strategy: str) -> str:
    checked = [_CHECK] if "evaluated" in case else []
    text = recipe(stage(case, strategy), *checked)
    if case == TOOL_CALLS:
        return tool_recipe(text)
    return text.replace("hidden_size: 32", "hidden_size: 384") if "a wider model" in case else text


def measure_cell(bench: StageHarness, case: str, strategy: str, kills: int, drawn: random.Random) -> Cell:
    plan, errors = compile_or_errors(recipe_text(case, strategy))
    if plan is None:
        return {"exact": "refused", "why": "; ".join(errors)}
    step = plan.step("it")
    began = time.monotonic()
    bench.reset_step(step)
    bench.prepare_step(plan, step)
    if failure := failure_cell(bench, step, bench.wait(step, patience=_TIMEOUT)):
        return failure
    undisturbed = bench.commit(step)
    found: Cell = {"exact": "yes", "losses": metrics(undisturbed, "loss"), "resumed": []}
    found["seconds"] = round(time.monotonic() - began, 1)
    if "best" in undisturbed.facts:
        found["evaluated"] = check_best_weights(bench, case, strategy, undisturbed)
        if other := found["evaluated"]["other"]:
            return {**found, "exact": "no", "why": f"not the best weights in {', '.join(other)}"}
    for _ in range(kills):
        train_until_kill(bench, plan, step, seconds_after_checkpoint(undisturbed), drawn)
        if failure := failure_cell(bench, step, bench.wait(step, patience=_TIMEOUT)):
            return {**failure, "why": f"after the kill: {failure['why']}"}
        found["resumed"] += [e["step"] for e in bench.events(step) if e["kind"] == "resumed"]
        if other := differing_files(undisturbed, bench.commit(step)):
            return {**found, "exact": "no", "why": f"other bytes in {', '.join(other)}"}
    return found


def check_best_weights(bench: StageHarness, case: str, strategy: str, product: Product) -> Cell:
    """The evaluations, and the files that differ from the product of a stage that ends at the best step."""
    best = product.facts["best"]
    found: Cell = {"values": metrics(product, event_name(best["metric"])), "best": best["step"]}
    ended = (
        stage(case, strategy)
        .replace(f", {_EVALUATION}", "")
        .replace(f", {_HELD_OUT}", "")
        .replace("max_steps: 9", f"max_steps: {best['step']}")
    )
    text = recipe_text(case, strategy).replace(stage(case, strategy), ended).replace(f"\n  {_CHECK}", "")
    plan = compile_plan(text)
    bench.reset_step(plan.step("it"))
    other = differing_files(product, bench.run_step(plan, plan.step("it")))
    weights = [name for name in other if not name.startswith(f"{EVALUATION_DIR}/")]
    return {**found, "last": product.facts["steps"], "other": weights}


def failure_cell(bench: StageHarness, step: Step, status: int) -> Cell | None:
    """The cell of a failed run. `refused`: the stage rejected the combination with advice."""
    if status == 0:
        return None
    failure = bench.failure(step)
    if status == -signal.SIGKILL:
        return {"exact": "no", "why": f"did not end in {_TIMEOUT:g} s", "log": failure["log"]}
    refused = not failure.get("advice", _UNEXPECTED_ADVICE).startswith(_UNEXPECTED_ADVICE)
    return {
        "exact": "refused" if refused else "no",
        "why": failure["message"],
        **({} if refused else {"log": failure["log"]}),
    }


def seconds_after_checkpoint(product: Product) -> float:
    """The seconds from the first checkpoint of a stage to its end."""
    events = [json.loads(line) for line in (product.record / "events.jsonl").read_text().splitlines()]
    first = next(e["at"] for e in events if e["kind"] == "checkpoint" and e["step"] >= _FIRST_CHECKPOINT)
    return events[-1]["at"] - first


def train_until_kill(
    bench: StageHarness, plan: Plan, step: Step, seconds: float, drawn: random.Random
) -> None:
    """Train until the kill. Repeat if the stage ends before the kill."""
    status = 0
    while status == 0:
        bench.reset_step(step)
        bench.prepare_step(plan, step)
        status = bench.wait(
            step, kill_at=_FIRST_CHECKPOINT, after=drawn.uniform(0, seconds), patience=_TIMEOUT
        )
    assert status == -signal.SIGKILL, bench.failure(step)
    wait_until(lambda: is_step_finished(bench, step), "all processes have exited")
    bench.prepare_step(plan, step)


def differing_files(one: Product, other: Product) -> list[str]:
    a, b = ({n: f.sha256 for n, f in p.manifest.files.items()} for p in (one, other))
    return sorted(name for name in a.keys() | b.keys() if a.get(name) != b.get(name))


def save_cell(case: str, strategy: str, found: Cell) -> None:
    """Write the record and the page after every cell, so that no measurement is lost."""
    record: dict[str, dict[str, Cell]] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    record = {name: cells for name, cells in record.items() if name in CASES}
    record.setdefault(case, {})[strategy] = {n: value for n, value in found.items() if n != "log"}
    RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    write_tables(record, CASES)


if __name__ == "__main__":
    main()
