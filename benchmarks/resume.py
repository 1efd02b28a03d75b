"""What becomes of a training stage that is killed, by every method under every strategy.

    python -m benchmarks.resume [NAME ...] [--kills 1] [--seed 1]

from the root of the repository writes the tables of docs/resume.md, between its two marks. A NAME is a
row or a strategy: only the cells that are named are measured again, and benchmarks/resume.json keeps the
others, with what each was.

A cell trains a tiny model undisturbed, then again, and kills all its processes at once with SIGKILL, at an
instant drawn from those between its first checkpoint and its end. It goes on, and every file of its
product must have the digest that it had undisturbed. The product of a stage that keeps its best weights must
have the files of a stage without evaluations that ends at the step of the best.
"""

import argparse
import json
import random
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.resume_page import STRATEGIES, Cell, write
from tests.recipe_command import wait_until
from tests.runtime.launch.divided import dividing_runner
from tests.runtime.launch.test_processes import gone
from tests.runtime.methods.workbench import Bench, compiled, judged, metrics, recipe

from posttrain.runtime.keeping.store import Product
from posttrain.runtime.runners.process import ProcessRunner
from posttrain.spec.plan import Plan, Step

HERE = Path(__file__).parent
RECORD = HERE / "resume.json"
# 64 rows last for two steps: a checkpoint of step 3 is in the middle of the second epoch.
_ROWS = "steps: 9, learning_rate: 1.0e-3, batch: 32, max_length: 64, checkpoint_every: 3"
_SLOWER = _ROWS.replace("1.0e-3", "1.0e-4")
_PROMPTS = "steps: 9, prompts: 32, generations: 2, learning_rate: 1.0e-3, max_tokens: 6, checkpoint_every: 3"
_WRITTEN = "steps: 9, batch: 32, iterations: 3, learning_rate: 1.0e-3, max_tokens: 6, checkpoint_every: 3"
_BUFFERED = _PROMPTS.replace("checkpoint_every: 3", "checkpoint_every: 4")
_PAIRED = ("reward_model", "dpo", "ipo", "kto", "orpo", "cpo", "simpo")
_LORA = "adapter: {rank: 4, dropout: 0.1}"
# Rates that are the same however many steps there are, so that a shorter stage comes by the same weights.
_STEADY = "schedule: constant, warmup: 0"
_EVALUATED = (
    "evaluate: {every: 2, evals: [check], metric: check.score, keep: best, better: lower, patience: 2}"
)
_CHECK = (
    "check: {eval: it, data: sums.test, reward: solution, metrics: {score: {mean: returns}},"
    " sampling: {max_tokens: 6, temperature: 0.8, samples: 4}}"
)
# Each row: the method with its keys, and its params. ZeRO-3 gathers weights of fewer than 100,000 numbers
# once and for all: the wider model has larger ones.
CASES: Mapping[str, tuple[str, str]] = {
    "sft": ("sft", _ROWS),
    **{method: (method, _ROWS) for method in _PAIRED},
    "grpo": ("grpo, reward: solution", _PROMPTS),
    "rloo": ("rloo, reward: solution", _PROMPTS),
    "ppo": ("ppo, reward: solution", _WRITTEN),
    "sft, a new adapter with dropout": (f"sft, {_LORA}", _ROWS),
    "dpo, a new adapter with dropout": (f"dpo, {_LORA}", _ROWS),
    "sft, a wider model": ("sft", _SLOWER),
    "dpo, a wider model and a reference that moves": ("dpo", f"{_SLOWER}, reference_every: 2"),
    "grpo, a new adapter, held to a reference": (
        "grpo, reward: solution, adapter: {rank: 4}",
        f"{_PROMPTS}, beta: 0.1",
    ),
    "grpo, iterations and buffer": (
        "grpo, reward: solution",
        f"{_BUFFERED}, iterations: 2, buffer: 2, micro_batch: 16",
    ),
    "sft, evaluated, best weights": (f"sft, {_EVALUATED}", f"{_ROWS}, {_STEADY}"),
    "sft, a new adapter, evaluated, best weights": (
        f"sft, adapter: {{rank: 4}}, {_EVALUATED}",
        f"{_ROWS}, {_STEADY}",
    ),
    "sft, a wider model, evaluated, best weights": (f"sft, {_EVALUATED}", f"{_SLOWER}, {_STEADY}"),
    "grpo, evaluated, best weights": (
        f"grpo, reward: solution, {_EVALUATED}",
        f"{_PROMPTS}, {_STEADY}",
    ),
}
# The step of the first checkpoint, which is the first to go on from.
_FIRST = 3
_PATIENCE = 300.0
_OURS_TO_FIND = "its log is record/"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tables", action="store_true", help="only write the tables again")
    parser.add_argument("names", nargs="*", choices=[[], *CASES, *STRATEGIES], default=[])
    asked = parser.parse_args()
    if asked.tables:
        write(json.loads(RECORD.read_text()), CASES)
    else:
        measure(asked.names, asked.kills, random.Random(asked.seed))


def measure(names: Sequence[str], kills: int, drawn: random.Random) -> None:
    with tempfile.TemporaryDirectory(prefix="posttrain-resume-") as folder:
        benches = Benches(Path(folder))
        for case, strategy in cells(names):
            found = measured(benches.of(strategy), case, strategy, kills, drawn)
            keep(case, strategy, found)
            print(f"{case} | {strategy} | {found}", flush=True)
        benches.close()


def cells(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    rows = [case for case in CASES if case in names] or list(CASES)
    for strategy in [one for one in STRATEGIES if one in names] or STRATEGIES:
        for case in rows:
            yield case, strategy


class Benches:
    """A bench for most strategies, and one whose workers take themselves to be on GPUs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.made: dict[bool, Bench] = {}

    def of(self, strategy: str) -> Bench:
        divided = strategy == "fsdp"
        if divided not in self.made:
            folder = self.root / ("divided" if divided else "whole")
            folder.mkdir()
            self.made[divided] = Bench(folder, dividing_runner(folder) if divided else runner(folder))
        return self.made[divided]

    def close(self) -> None:
        for bench in self.made.values():
            bench.runner.close()


def runner(folder: Path) -> ProcessRunner:
    found = ProcessRunner()
    found.expect(compiled(recipe()), ["sft"], folder)
    return found


def stage(case: str, strategy: str) -> str:
    """A stage placed as a user would place it."""
    method, params = CASES[case]
    placed = "" if strategy == "single" else f"placement: {{processes: 2, strategy: {strategy}}}, "
    return f"it: {{train: {method}, model: sft, data: sums.train, {placed}params: {{{params}}}}}"


def recipe_of(case: str, strategy: str) -> str:
    checked = [_CHECK] if "evaluated" in case else []
    text = recipe(stage(case, strategy), *checked)
    return text.replace("hidden: 32", "hidden: 384") if "a wider model" in case else text


def measured(bench: Bench, case: str, strategy: str, kills: int, drawn: random.Random) -> Cell:
    plan, errors = judged(recipe_of(case, strategy))
    if plan is None:
        return {"exact": "refused", "why": "; ".join(errors)}
    step = plan.step("it")
    began = time.monotonic()
    bench.forget(step)
    bench.lay_out(plan, step)
    if told := trouble(bench, step, bench.wait(step, patience=_PATIENCE)):
        return told
    undisturbed = bench.commit(step)
    found: Cell = {"exact": "yes", "losses": metrics(undisturbed, "loss"), "resumed": []}
    found["seconds"] = round(time.monotonic() - began, 1)
    if "best" in undisturbed.facts:
        found["evaluated"] = evaluated(bench, case, strategy, undisturbed)
        if other := found["evaluated"]["other"]:
            return {**found, "exact": "no", "why": f"not the best weights in {', '.join(other)}"}
    for _ in range(kills):
        kill(bench, plan, step, left(undisturbed), drawn)
        if told := trouble(bench, step, bench.wait(step, patience=_PATIENCE)):
            return {**told, "why": f"after the kill: {told['why']}"}
        found["resumed"] += [e["step"] for e in bench.events(step) if e["kind"] == "resumed"]
        if other := differing(undisturbed, bench.commit(step)):
            return {**found, "exact": "no", "why": f"other bytes in {', '.join(other)}"}
    return found


def evaluated(bench: Bench, case: str, strategy: str, product: Product) -> Cell:
    """What was measured on the way, and whether the product is what a stage gives that ends at the best."""
    best = product.facts["best"]
    found: Cell = {"values": metrics(product, "eval/check.score"), "best": best["step"]}
    ended = stage(case, strategy).replace(f", {_EVALUATED}", "").replace("steps: 9", f"steps: {best['step']}")
    text = recipe_of(case, strategy).replace(stage(case, strategy), ended).replace(f"\n  {_CHECK}", "")
    plan = compiled(text)
    bench.forget(plan.step("it"))
    other = differing(product, bench.made(plan, plan.step("it")))
    return {**found, "last": product.facts["steps"], "other": other}


def trouble(bench: Bench, step: Step, status: int) -> Cell | None:
    """Why a run has not ended well; one that refuses to begin says what to do instead."""
    if status == 0:
        return None
    failure = bench.failure(step)
    if status == -signal.SIGKILL:
        return {"exact": "no", "why": f"did not end in {_PATIENCE:g} s", "log": failure["log"]}
    refused = not failure.get("advice", _OURS_TO_FIND).startswith(_OURS_TO_FIND)
    return {
        "exact": "refused" if refused else "no",
        "why": failure["message"],
        **({} if refused else {"log": failure["log"]}),
    }


def left(product: Product) -> float:
    """The seconds from a stage's first checkpoint to its end."""
    events = [json.loads(line) for line in (product.record / "events.jsonl").read_text().splitlines()]
    first = next(e["at"] for e in events if e["kind"] == "checkpoint" and e["step"] >= _FIRST)
    return events[-1]["at"] - first


def kill(bench: Bench, plan: Plan, step: Step, seconds: float, drawn: random.Random) -> None:
    """Train anew until the kill; a run that was faster than it is made once more."""
    status = 0
    while status == 0:
        bench.forget(step)
        bench.lay_out(plan, step)
        status = bench.wait(step, kill_at=_FIRST, after=drawn.uniform(0, seconds), patience=_PATIENCE)
    assert status == -signal.SIGKILL, bench.failure(step)
    wait_until(lambda: gone(bench, step), "the end of all processes")
    bench.lay_out(plan, step)


def differing(one: Product, other: Product) -> list[str]:
    a, b = ({n: f["sha256"] for n, f in p.manifest["files"].items()} for p in (one, other))
    return sorted(name for name in a.keys() | b.keys() if a.get(name) != b.get(name))


def keep(case: str, strategy: str, found: Cell) -> None:
    """Write the record and the page after every cell: nothing that was measured is lost."""
    record: dict[str, dict[str, Cell]] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    record = {name: cells for name, cells in record.items() if name in CASES}
    record.setdefault(case, {})[strategy] = {n: value for n, value in found.items() if n != "log"}
    RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    write(record, CASES)


if __name__ == "__main__":
    main()
