"""Kills runs at random instants and holds what comes out to an undisturbed run.

    python -m tests.runtime.chaos --kills 100 [--seed 7]      (make chaos N=100)

Each round starts the run, waits a random time, kills the client, a worker or both, and sees that
nothing survives. A run that comes to its end is compared file by file; then a new one begins. Printed:
the seed, every kill with what it hit, and at the end the figures.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.recipe_command import TINY, begin, call, digests, product, wait_until, workers_of

STAGES = ("models.base", "datasets.sums", "sft", "before", "grpo", "after", "ship", "export")


@dataclass
class Figures:
    kills: int = 0
    runs: int = 0
    hit: Counter[str] = field(default_factory=Counter[str])
    lost: list[str] = field(default_factory=list[str])


def state_of(home: Path) -> str:
    """What a home was doing: the stages under way, by their work folders."""
    names: list[str] = []
    for step in sorted((home / "work").glob("*/record/step.json")):
        try:
            names.append(json.loads(step.read_text())["id"])
        except (OSError, ValueError):
            names.append("?")
    return "+".join(names) or "between steps"


def worker_pids(client: int) -> list[int]:
    """All processes below the client."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            if parent == client or parent in found:
                found.append(int(entry.name))
    return found


def one_kill(home: Path, log: Path, draw: random.Random, longest: float, figures: Figures) -> bool:
    """Start the run and kill something; whether the run came to its end all the same."""
    client = begin("run", TINY, "--home", home, log=log)
    deadline = time.monotonic() + draw.uniform(0.3, longest)
    while time.monotonic() < deadline and client.poll() is None:
        time.sleep(0.002)
    if client.poll() is not None:
        return client.returncode == 0
    victim = draw.choice(("client", "worker", "both"))
    figures.kills += 1
    figures.hit[f"{victim}: {state_of(home)}"] += 1
    workers = worker_pids(client.pid)
    for pid in ([client.pid] if victim == "client" else []) + (workers if victim != "client" else []):
        _kill(pid)
    if victim == "both":
        _kill(client.pid)
    if victim == "worker":
        client.wait(timeout=120)  # it sees that its worker died, and ends by itself
    client.wait(timeout=120)
    wait_until(lambda: not workers_of(home), "the end of all processes", seconds=30)
    return False


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def compare(home: Path, whole: dict[str, dict[str, str]]) -> list[str]:
    """The stages whose products are not those of the undisturbed run."""
    return [stage for stage in STAGES if digests(product(home, stage)) != whole[stage]]


def journal_is_sound(home: Path) -> bool:
    """Whether every journal opens and no step was run again in a later run after it had finished."""
    finished: set[str] = set()
    for run in sorted((home / "runs").iterdir()):
        if not (run / "journal.sqlite").exists():
            continue
        with sqlite3.connect(run / "journal.sqlite") as db:
            rows = db.execute("SELECT key, state FROM step").fetchall()
        if any(state in ("running", "done") and key in finished for key, state in rows):
            return False
        finished |= {key for key, state in rows if state == "done"}
    return True


def chaos(kills: int, seed: int, folder: Path) -> Figures:
    draw = random.Random(seed)
    figures = Figures()
    whole_home = folder / "whole"
    began = time.monotonic()
    done = call("run", TINY, "--home", whole_home)
    assert done.returncode == 0, done.stdout + done.stderr
    longest = time.monotonic() - began
    whole = {stage: digests(product(whole_home, stage)) for stage in STAGES}
    while figures.kills < kills:
        home, log = folder / f"home{figures.runs}", folder / f"log{figures.runs}"
        while not one_kill(home, log, draw, longest, figures):
            if figures.kills >= kills:
                last = call("run", TINY, "--home", home)
                if last.returncode:
                    figures.lost.append(
                        f"run {figures.runs} ended with {last.returncode}: {last.stdout[-400:]}"
                    )
                break
        figures.runs += 1
        figures.lost += [f"run {figures.runs}: {stage} differs" for stage in compare(home, whole)]
        if not journal_is_sound(home):
            figures.lost.append(f"run {figures.runs}: a finished step ran again")
        shutil.rmtree(home)
        print(f"{figures.kills} kills, {figures.runs} runs, {len(figures.lost)} lost", flush=True)
    return figures


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--kills", type=int, default=20)
    options.add_argument("--seed", type=int, default=int(time.time()))
    given = options.parse_args()
    print(f"seed {given.seed}")
    with tempfile.TemporaryDirectory() as folder:
        figures = chaos(given.kills, given.seed, Path(folder))
    for what, count in figures.hit.most_common():
        print(f"{count:5}  {what}")
    print(*figures.lost, sep="\n")
    print(f"{figures.kills} kills in {figures.runs} runs: {len(figures.lost)} lost")
    return 1 if figures.lost else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.TimeoutExpired as error:
        sys.exit(f"something hung: {error}")
