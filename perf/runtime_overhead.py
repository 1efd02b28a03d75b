"""Measures the overhead of the runtime, as ratios within one run.

    python perf/runtime_overhead.py [--rounds 7] [--steps 1000] [--gigabytes 4] [PART ...]

Parts: `idle` (CPU time of a run in which all steps are cached, relative to the floor), `steps` (wall time of
a small step in addition to its own work), `commit` (a commit to the store, relative to sha256sum and cp),
`checkpoint` (finalizing a checkpoint, relative to sha256 and fsync), `stage` (a training stage in the runner,
relative to a direct call).
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cpu_time import RECIPE_COMMAND, median_cpu_seconds, print_times

from posttrain.cli.compile import compile_file
from posttrain.runtime import atomic_io
from posttrain.runtime.execution.executor import execute
from posttrain.runtime.execution.run_context import RunContext
from posttrain.runtime.machine import Machine
from posttrain.runtime.runners.dispatch import RunnerDispatch
from posttrain.runtime.runners.process import ProcessRunner
from posttrain.runtime.store import checkpoints, workdir
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.journal import Journal
from posttrain.runtime.store.products import Store
from posttrain.runtime.store.runs import new_run
from posttrain.spec.plan import Plan

SMALL_STEPS = 8
MODEL = """\
recipe: 1
name: bench
models:
  base:
    init: {model_type: qwen2, num_hidden_layers: 3, hidden_size: 128, num_attention_heads: 4}
    tokenizer: {init: characters}
    chat_template: chat.jinja
"""
CHAT = "{% for m in messages %}{{ m['content'] }}{{ eos_token }}{% endfor %}"
TRAINING_RECIPE = (
    MODEL
    + """\
datasets:
  sums:
    from: {arithmetic: {digits: 2, count: 4000, seed: 1}}
stages:
  sft: {train: sft, model: base, data: sums, params: {max_steps: 250, batch_size: 32, learning_rate: 2.0e-3}}
"""
)


def chain(count: int) -> str:
    """A recipe of programs, each of which reads the output of the previous one."""
    lines = ["recipe: 1", "name: chain", "stages:"]
    for number in range(count):
        reads = f", inputs: {{before: s{number - 1}}}" if number else ""
        lines.append(f'  s{number}: {{script: [sh, -c, "echo {number} > $OUT/n"]{reads}}}')
    return "\n".join(lines) + "\n"


def write_recipe(folder: Path, recipe: str) -> Path:
    folder.mkdir()
    (folder / "recipe.yaml").write_text(recipe)
    (folder / "chat.jinja").write_text(CHAT)
    return folder


def plan_of(folder: Path) -> Plan:
    outcome, _ = compile_file(folder / "recipe.yaml", (), ())
    assert outcome.plan is not None, outcome.diagnostics
    return outcome.plan


def idle(folder: Path, rounds: int, steps: int) -> None:
    """CPU time of runs in which all steps are cached."""
    commands: dict[str, list[str]] = {}
    for count in (6, steps):
        recipe = write_recipe(folder / str(count), chain(count))
        home = ["--home", str(recipe / "home")]
        subprocess.run([*RECIPE_COMMAND, "run", str(recipe), *home], check=True, stdout=subprocess.DEVNULL)
        commands[f"plan, {count:,} cached steps"] = [*RECIPE_COMMAND, "plan", str(recipe), *home]
        commands[f"run, {count:,} cached steps"] = [*RECIPE_COMMAND, "run", str(recipe), *home]
    print_times(median_cpu_seconds(commands, rounds))


def execute_plan(folder: Path, plan: Plan, runner: ProcessRunner) -> Journal:
    """Execute a plan on one core, so that steps follow each other."""
    home = Home(folder / f"home-{time.monotonic_ns()}")
    run = new_run(home, plan, folder / "recipe.yaml")
    journal = Journal(run / "journal.sqlite")
    context = RunContext(
        home=home,
        recipe_dir=folder,
        journal=journal,
        on_state_change=lambda *_: None,
        run_name=run.name,
        runner=RunnerDispatch(process=runner),
        machine=Machine(cpus=1, memory_gb=1e6),
    )
    states = execute(plan, context)
    assert set(states.values()) == {"done"}, states
    return journal


def overhead_per_step(journal: Journal) -> float:
    """Seconds per step in addition to its own work, from the end of the first step to the end of the last."""
    entries = sorted(journal.entries(), key=lambda entry: entry.ended or 0)
    first, last = entries[0].ended, entries[-1].ended
    assert first is not None
    assert last is not None
    worked = sum(entry.cost["seconds"] for entry in entries[1:])
    return (last - first - worked) / (len(entries) - 1)


def steps(folder: Path) -> None:
    """Small steps that need the heavy stack, forked from the forkserver or started as new processes."""
    head, models, model = MODEL.partition("  base:\n")
    several = "".join(models.replace("base", f"m{number}") + model for number in range(SMALL_STEPS))
    stages = "".join(f"  e{number}: {{export: m{number}}}\n" for number in range(SMALL_STEPS))
    recipe = write_recipe(folder / "small", f"{head}{several}stages:\n{stages}")
    plan = plan_of(recipe)
    for name, forked in (("forked from the forkserver", True), ("cold start", False)):
        journal = execute_plan(recipe, plan, ProcessRunner(use_forkserver=forked))
        worked = statistics.median(entry.cost["seconds"] for entry in journal.entries())
        print(
            f"a small step, {name}: {overhead_per_step(journal):.2f} s in addition to its own {worked:.2f} s",
            flush=True,
        )


def commit(folder: Path, rounds: int, gigabytes: float) -> None:
    """Commit a large product (checksums, sync, rename), relative to sha256sum and cp."""
    source = folder / "large"
    _random_file(source, int(gigabytes * 10**9))
    ways: Mapping[str, Callable[[], float]] = {
        "sha256sum + cp": lambda: _hash_and_copy(source, folder / "copy"),
        "sha256sum + cp + sync": lambda: _hash_and_copy(source, folder / "copy", sync=True),
        "into the store": lambda: _commit_product(source, folder / "home"),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            times[name].append(way())
    floor = statistics.median(times["sha256sum + cp"])
    for name, taken in times.items():
        middle = statistics.median(taken)
        print(f"{gigabytes:g} GB, {name:24} {middle:7.2f} s  {middle / floor:5.2f}", flush=True)


def _random_file(path: Path, size: int, *, sync: bool = True) -> None:
    with path.open("wb") as file:
        while (left := size - file.tell()) > 0:
            file.write(os.urandom(min(left, 1 << 24)))
        if sync:
            os.fsync(file.fileno())


def _hash_and_copy(source: Path, copy: Path, *, sync: bool = False) -> float:
    began = time.monotonic()
    subprocess.run(["sha256sum", str(source)], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cp", "--reflink=never", str(source), str(copy)], check=True)
    if sync:
        subprocess.run(["sync", str(copy)], check=True)
    took = time.monotonic() - began
    copy.unlink()
    return took


def _commit_product(source: Path, home: Path) -> float:
    """The work of a worker and the client for a product that has just been written."""
    work = home / "work"
    (work / "files").mkdir(parents=True)
    (work / "record").mkdir()
    shutil.copyfile(source, work / "files" / "large")
    about = {"step": "bench", "kind": "bench", "facts": {}, "cost": {}}
    began = time.monotonic()
    digests = atomic_io.sync_and_digest(work / "files")
    Store(home / "store").commit("0" * 64, work / "files", work / "record", digests, about)
    took = time.monotonic() - began
    shutil.rmtree(home)
    return took


def finalize_checkpoint(folder: Path, rounds: int, gigabytes: float) -> None:
    """Wall time to finalize a checkpoint that has just been written; training continues meanwhile."""
    taken: dict[str, list[float]] = {"sha256 + fsync": [], "finalized": []}
    for _ in range(rounds):
        for name, function in (("sha256 + fsync", _hash_and_sync), ("finalized", checkpoints.finalize)):
            checkpoint = folder / "checkpoint-1"
            checkpoint.mkdir()
            _random_file(checkpoint / "model.safetensors", int(gigabytes * 2**30), sync=False)
            began = time.monotonic()
            function(checkpoint)
            taken[name].append(time.monotonic() - began)
            shutil.rmtree(checkpoint)
    floor = statistics.median(taken["sha256 + fsync"])
    for name, times in taken.items():
        middle = statistics.median(times)
        print(f"{gigabytes:g} GB, {name:24} {middle:7.2f} s  {middle / floor:5.2f}", flush=True)


def _hash_and_sync(checkpoint: Path) -> None:
    atomic_io.file_digests(checkpoint)
    atomic_io.sync_tree(checkpoint)


def stage(folder: Path, rounds: int) -> None:
    """CPU time of a training stage in the runner, including the client, and of a direct call."""
    recipe = write_recipe(folder / "trained", TRAINING_RECIPE)
    plan = plan_of(recipe)
    through: list[float] = []
    direct: list[float] = []
    for _ in range(rounds):
        began = time.process_time()
        journal = execute_plan(recipe, plan, ProcessRunner())
        watched = time.process_time() - began
        entry = next(entry for entry in journal.entries() if entry.id == "sft")
        through.append(entry.cost["cpu_seconds"] + watched)
        home = max(recipe.glob("home-*"), key=lambda path: path.stat().st_mtime)
        direct.append(_called_directly(plan, Home(home), recipe))
    middle = statistics.median(through), statistics.median(direct)
    print(
        f"sft: {middle[0]:.2f} s of CPU time in the runner, {middle[1]:.2f} s as a direct call:"
        f" {middle[0] / middle[1]:.3f}"
    )


def _called_directly(plan: Plan, home: Home, recipe: Path) -> float:
    """CPU time of the entry point only, in a process that has imported its modules."""
    step = plan.step("sft")
    inputs = {
        role: home.store.root / plan.step(source.step).key / "files" for role, source in step.inputs.items()
    }
    work = home.workdir("direct")
    workdir.prepare(work, step, inputs, recipe)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        [sys.executable, "-c", _DIRECT, str(work)],
        check=True,
        env=environment,
        capture_output=True,
        text=True,
    )
    return float(json.loads(done.stdout.splitlines()[-1]))


_DIRECT = """
import json, sys, time
from importlib import import_module
from pathlib import Path
from posttrain.runtime.catalog import load_entry
from posttrain.runtime.runners.process import heavy_imports
from posttrain.runtime.worker import create_context
context = create_context(Path(sys.argv[1]))
for module in heavy_imports(context.step):
    import_module(module)
import torch
torch.set_num_threads(1)
run = load_entry(context.step.entry)
began = time.process_time()
run(context)
print(json.dumps(time.process_time() - began))
"""


def main(arguments: Sequence[str] | None = None) -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--steps", type=int, default=1000)
    options.add_argument("--gigabytes", type=float, default=4)
    options.add_argument("--folder", help="a folder on the disk to measure")
    options.add_argument("parts", nargs="*", default=["idle", "steps", "commit", "checkpoint", "stage"])
    given = options.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        parts: dict[str, Callable[[], None]] = {
            "idle": lambda: idle(folder, given.rounds, given.steps),
            "steps": lambda: steps(folder),
            "commit": lambda: commit(folder, min(given.rounds, 3), given.gigabytes),
            "checkpoint": lambda: finalize_checkpoint(folder, min(given.rounds, 3), given.gigabytes),
            "stage": lambda: stage(folder, min(given.rounds, 5)),
        }
        for part in given.parts:
            parts[part]()


if __name__ == "__main__":
    main()
