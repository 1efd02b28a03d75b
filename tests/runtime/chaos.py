"""Chaos test: injects random faults into runs, and compares the results with an undisturbed run.

    python -m tests.runtime.chaos --faults 100 [--seed 7] [--minutes 60] [--record kills.jsonl]
        [--kinds kill,restart,concurrent,clock,disk_full,damage]

(make chaos N=100.) Each fault hits a run that continues or starts: a kill of the client, a worker, the
forkserver or all of them, a second client, a jumping clock, a full disk, or changed bytes on the disk.
After each fault, no orphan process may survive, and the store may contain no partial product. A completed run
is compared file by file, and no finished step may have run twice; then a new run starts. The output is the
seed, the injected faults, and the results. The record has a line for each kill;
`python -m tests.runtime.chaos_table` counts them.
"""

import argparse
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.recipe_command import file_digests, run_command
from tests.runtime.chaos_faults import FAULTS
from tests.runtime.chaos_phases import count_starts
from tests.runtime.chaos_run import RECIPE_FOLDER, ChaosRun, damaged_products
from tests.runtime.resizable_tmpfs import can_mount, resizable_tmpfs

from posttrain.runtime.store.home import Home
from posttrain.runtime.store.runs import find_step_key, last_run, step_ids


@dataclass
class ChaosResult:
    faults: int = 0
    runs: int = 0
    # Locks, folders and other leftovers of a finished run under work/.
    leftovers: int = 0
    hits: Counter[str] = field(default_factory=Counter[str])
    violations: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class ReferenceRun:
    """An undisturbed run: its duration, its disk usage, and the digests of its products."""

    seconds: float
    room: int
    stages: dict[str, dict[str, str]]


def reference_run(home: Path) -> ReferenceRun:
    began = time.monotonic()
    done = run_command("run", RECIPE_FOLDER, "--home", home)
    assert done.returncode == 0, done.stdout + done.stderr
    seconds = time.monotonic() - began
    room = sum(path.stat().st_size for path in home.rglob("*") if path.is_file())
    return ReferenceRun(seconds, room, product_digests(home))


def product_digests(home: Path) -> dict[str, dict[str, str]]:
    """The digests of all files of all products of the newest run."""
    where = Home(home)
    run = last_run(where)
    assert run is not None, f"no run in {home}"
    return {
        id: file_digests(where.store.root / str(find_step_key(run, id)) / "files") for id in step_ids(run)
    }


@dataclass(frozen=True)
class ChaosOptions:
    """The options of the chaos test: the faults, their number, the duration, and the record file."""

    kinds: Sequence[str]
    faults: int
    seed: int
    until: float = float("inf")
    record: Path | None = None


def run_chaos(options: ChaosOptions, folder: Path) -> ChaosResult:
    """Inject faults into one run after the other, and let the last one finish."""
    draw = random.Random(options.seed)
    result = ChaosResult()
    reference = reference_run(folder / "whole")
    print(f"an undisturbed run took {reference.seconds:.1f} s", flush=True)
    while _has_budget(options, result):
        home, log = folder / f"home{result.runs}", folder / f"log{result.runs}"
        chaos_run = ChaosRun(home, log, draw, reference.seconds, reference.room, result.hits)
        with resizable_tmpfs(home, wanted="disk_full" in options.kinds), chaos_run.killing_client():
            disturb_run(chaos_run, options, result)
            result.runs += 1
            compare_with_reference(chaos_run, reference, result)
        lost = [f"run {result.runs} in {home}: {what}" for what in chaos_run.violations]
        result.violations += lost
        print(*lost, sep="\n", end="\n" if lost else "", flush=True)
        if not chaos_run.violations:  # otherwise keep it for inspection
            shutil.rmtree(home)
        print(f"{result.faults} faults, {result.runs} runs, {len(result.violations)} lost", flush=True)
    return result


def _has_budget(options: ChaosOptions, result: ChaosResult) -> bool:
    return result.faults < options.faults and time.monotonic() < options.until


def disturb_run(chaos_run: ChaosRun, options: ChaosOptions, result: ChaosResult) -> None:
    """Inject faults into one run until it ends or the faults are used up; then let it finish."""
    ended = False
    while _has_budget(options, result) and not ended:
        before = len(chaos_run.kills)
        kind = chaos_run.rng.choice(options.kinds)
        ended = FAULTS[kind](chaos_run)
        # A kill after the end does not count.
        result.faults += len(chaos_run.kills) - before if kind == "kill" else 1
        _write_record(options, result, chaos_run.kills[before:])
    chaos_run.wait_for_client()


def _write_record(options: ChaosOptions, result: ChaosResult, kills: list[dict[str, Any]]) -> None:
    if options.record is not None and kills:
        with options.record.open("a") as file:
            for kill in kills:
                file.write(json.dumps({"seed": options.seed, "run": result.runs, **kill}) + "\n")


def compare_with_reference(chaos_run: ChaosRun, reference: ReferenceRun, result: ChaosResult) -> None:
    """Run once more, and compare the products with those of the undisturbed run."""
    last = run_command("run", RECIPE_FOLDER, "--home", chaos_run.home)
    if last.returncode:
        chaos_run.violations.append(
            f"it ended with {last.returncode}: {last.stdout[-400:]} {last.stderr[-400:]}"
        )
        return
    chaos_run.wait_for_processes()
    found = product_digests(chaos_run.home)
    chaos_run.violations += [
        f"{id} differs" for id, digests in reference.stages.items() if found.get(id) != digests
    ]
    chaos_run.violations += (
        damaged_products(chaos_run.home) + repeated_steps(chaos_run.home) + restarted_steps(chaos_run)
    )
    result.leftovers += sum(1 for _ in (chaos_run.home / "work").iterdir())


def restarted_steps(chaos_run: ChaosRun) -> list[str]:
    """Steps that had a receipt at the time of the fault, and started again afterwards."""
    store = chaos_run.home / "store"
    return [
        f"{key} started again although it had finished"
        for key, times in chaos_run.finished.items()
        if count_starts(store / key / "record") != times
    ]


def repeated_steps(home: Path) -> list[str]:
    """Steps that ran again after they had finished, by the journals. Damaged ones have to run again.

    With two clients at once, one can be killed during a step that the other then takes over: its row says
    that the step is running, and started before the row of the other ended.
    """
    damaged = {path.name.partition("-")[0] for path in (home / "store").glob(".damaged/*")}
    finished: dict[str, float] = {}
    twice: list[str] = []
    for run in sorted((home / "runs").iterdir()):
        try:
            with closing(sqlite3.connect(run / "journal.sqlite")) as db:
                rows = db.execute("SELECT id, key, state, began, ended FROM step").fetchall()
        except sqlite3.Error:  # a damaged journal, or a client that died before it created one
            continue
        again = [
            (id, key)
            for id, key, state, began, _ in rows
            if state in ("running", "done") and began is not None and began > finished.get(key, began)
        ]
        twice += [f"{id} ran again after it had finished" for id, key in again if key not in damaged]
        finished |= {key: ended for _, key, state, _, ended in rows if state == "done"}
    return twice


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--faults", type=int, default=20, help="how many")
    options.add_argument("--seed", type=int, default=int(time.time()))
    options.add_argument("--kinds", default=",".join(FAULTS), help="the kinds of faults; default: all")
    options.add_argument(
        "--minutes", type=float, default=float("inf"), help="inject no fault after this many minutes"
    )
    options.add_argument("--record", type=Path, help="append a line for each kill to this file")
    options.add_argument("--folder", type=Path, help="the working folder; failed runs stay there")
    given = options.parse_args()
    os.environ["POSTTRAIN_TEST_PRELOAD"] = "no"  # faults also hit the imports
    kinds = given.kinds.split(",")
    print(f"seed {given.seed}")
    if given.folder is not None:
        given.folder.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="chaos-", dir=given.folder))
    if "disk_full" in kinds and not can_mount(folder / "tried"):
        print("no full-disk faults: only root can mount a small file system")
        kinds.remove("disk_full")
    until = time.monotonic() + 60 * given.minutes
    result = run_chaos(ChaosOptions(kinds, given.faults, given.seed, until, given.record), folder)
    for what, count in result.hits.most_common():
        print(f"{count:5}  {what}")
    print(*result.violations, sep="\n")
    print(
        f"{result.faults} faults in {result.runs} runs: {len(result.violations)} lost;"
        f" {result.leftovers} things left under work/"
    )
    if result.violations:
        print(f"see {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.TimeoutExpired as error:
        sys.exit(f"something hung: {error}")
