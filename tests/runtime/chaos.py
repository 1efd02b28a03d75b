"""Disturbs runs at random and holds what comes out to an undisturbed run.

    python -m tests.runtime.chaos --kills 100 [--seed 7] [--kinds kill,two,clock,full,damage]

(make chaos N=100.) Each round starts the run and disturbs it: by a kill of the client, a worker or
both, a second client, a jumping clock, a full disk, or bytes that change on the disk. It sees that no
process survives and that nothing half-made stands in the store. A run that comes to its end is compared
file by file, and no finished step may have run twice; then a new one begins. Printed: the seed, what hit
what, and at the end the figures.
"""

import argparse
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

from tests.recipe_command import TINY, call, digests, product
from tests.runtime.disturbances import KINDS, Scene, can_mount, small_disk

from posttrain.runtime.store import Store

STAGES = ("models.base", "datasets.sums", "sft", "before", "grpo", "after", "ship", "export")


@dataclass
class Figures:
    faults: int = 0
    runs: int = 0
    hit: Counter[str] = field(default_factory=Counter[str])
    lost: list[str] = field(default_factory=list[str])


def chaos(kinds: Sequence[str], seed: int, folder: Path) -> Figures:
    """Disturb runs by these, one after the other, until none is left."""
    draw = random.Random(seed)
    figures = Figures()
    began = time.monotonic()
    done = call("run", TINY, "--home", folder / "whole")
    assert done.returncode == 0, done.stdout + done.stderr
    seconds = time.monotonic() - began
    room = sum(path.stat().st_size for path in (folder / "whole").rglob("*") if path.is_file())
    whole = {stage: digests(product(folder / "whole", stage)) for stage in STAGES}
    ahead = list(kinds)
    while ahead:
        scene = Scene(
            folder / f"home{figures.runs}",
            folder / f"log{figures.runs}",
            draw,
            seconds,
            room,
            figures.hit,
        )
        with small_disk(scene.home, wanted="full" in ahead):
            figures.faults += one_run(scene, ahead, whole)
        figures.runs += 1
        figures.lost += [f"run {figures.runs}: {what}" for what in scene.lost]
        shutil.rmtree(scene.home)
        print(f"{figures.faults} faults, {figures.runs} runs, {len(figures.lost)} lost", flush=True)
    return figures


def one_run(scene: Scene, ahead: list[str], whole: dict[str, dict[str, str]]) -> int:
    """Disturb one run until it ends, or until nothing is left to disturb it by; how often it was."""
    faults = 0
    ended = damaged = False
    while ahead and not ended:
        kind = ahead.pop(0)
        faults += 1
        damaged = damaged or kind == "damage"
        ended = KINDS[kind](scene)
        if not damaged:
            scene.lost += half_made(scene.home)
    last = call("run", TINY, "--home", scene.home)
    if last.returncode:
        scene.lost.append(f"it ended with {last.returncode}: {last.stdout[-400:]} {last.stderr[-400:]}")
        return faults
    scene.lost += half_made(scene.home)
    scene.lost += [
        f"{stage} differs" for stage in STAGES if digests(product(scene.home, stage)) != whole[stage]
    ]
    scene.lost += ran_twice(scene.home)
    return faults


def half_made(home: Path) -> list[str]:
    """What stands in the store without being whole."""
    store = Store(home / "store")
    found: list[str] = []
    for key in store.all_keys():
        made = store.find(key)
        what = "it is not whole" if made is None else store.damage(made)
        found += [f"in the store under {key}: {what}"] if what else []
    return found


def ran_twice(home: Path) -> list[str]:
    """Steps that ran again after they had finished. What was damaged has to."""
    damaged = {path.name.partition("-")[0] for path in (home / "store").glob(".damaged/*")}
    finished: set[str] = set()
    twice: list[str] = []
    for run in sorted((home / "runs").iterdir()):
        try:
            with closing(sqlite3.connect(run / "journal.sqlite")) as db:
                rows = db.execute("SELECT id, key, state FROM step").fetchall()
        except sqlite3.Error:  # a damaged journal, or a client that died before it had one
            continue
        again = [(id, key) for id, key, state in rows if state in ("running", "done") and key in finished]
        twice += [f"{id} ran again after it had finished" for id, key in again if key not in damaged]
        finished |= {key for _, key, state in rows if state == "done"}
    return twice


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--kills", type=int, default=20, help="how many faults")
    options.add_argument("--seed", type=int, default=int(time.time()))
    options.add_argument("--kinds", default=",".join(KINDS), help="which faults, all if not given")
    given = options.parse_args()
    kinds = given.kinds.split(",")
    print(f"seed {given.seed}")
    draw = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as folder:
        if "full" in kinds and not can_mount(Path(folder) / "tried"):
            print("no disk is filled: only root can mount one that is small")
            kinds.remove("full")
        figures = chaos([draw.choice(kinds) for _ in range(given.kills)], given.seed, Path(folder))
    for what, count in figures.hit.most_common():
        print(f"{count:5}  {what}")
    print(*figures.lost, sep="\n")
    print(f"{figures.faults} faults in {figures.runs} runs: {len(figures.lost)} lost")
    return 1 if figures.lost else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.TimeoutExpired as error:
        sys.exit(f"something hung: {error}")
