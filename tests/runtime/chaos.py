"""Disturbs runs at random and holds what comes out to an undisturbed run.

    python -m tests.runtime.chaos --faults 100 [--seed 7] [--kinds kill,hasty,two,clock,full,damage]
                                  [--minutes 60] [--record kills.jsonl]

(make chaos N=100.) Each fault hits a run that goes on or begins: a kill of the client, a worker, the warm
process or all of them, a second client, a jumping clock, a full disk, or bytes that change on the disk.
It sees that no process survives that should not, and that nothing half-made stands in the store. A run that
comes to its end is compared file by file, and no finished step may have run twice; then a new one begins.
Printed: the seed, what hit what, and at the end the figures. The record has a line for each kill;
`python -m tests.runtime.chaos_table` counts them.
"""

import argparse
import json
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

from tests.recipe_command import call, digests
from tests.runtime.chaos_moments import begun
from tests.runtime.disturbances import KINDS
from tests.runtime.scene import RECIPE_FOLDER, Scene, half_made
from tests.runtime.small_disk import can_mount, small_disk

from posttrain.runtime.keeping.home import Home
from posttrain.runtime.keeping.runs import key_of, last_run, step_ids


@dataclass
class Figures:
    faults: int = 0
    runs: int = 0
    # Locks, folders and the like that a finished run had left under work/.
    left: int = 0
    hit: Counter[str] = field(default_factory=Counter[str])
    lost: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class Whole:
    """A run that nothing happened to: how long it took, its room, and the digests of its products."""

    seconds: float
    room: int
    stages: dict[str, dict[str, str]]


def undisturbed(home: Path) -> Whole:
    began = time.monotonic()
    done = call("run", RECIPE_FOLDER, "--home", home)
    assert done.returncode == 0, done.stdout + done.stderr
    seconds = time.monotonic() - began
    room = sum(path.stat().st_size for path in home.rglob("*") if path.is_file())
    return Whole(seconds, room, made(home))


def made(home: Path) -> dict[str, dict[str, str]]:
    """The digests of all files of all products of the newest run."""
    where = Home(home)
    run = last_run(where)
    assert run is not None, f"no run in {home}"
    return {id: digests(where.store.root / str(key_of(run, id)) / "files") for id in step_ids(run)}


@dataclass(frozen=True)
class Order:
    """What is to be done to runs: which faults, how many, for how long, and where it is written down."""

    kinds: Sequence[str]
    faults: int
    seed: int
    until: float = float("inf")
    record: Path | None = None


def chaos(order: Order, folder: Path) -> Figures:
    """Disturb runs, one after the other; the last one is brought to its end."""
    draw = random.Random(order.seed)
    figures = Figures()
    whole = undisturbed(folder / "whole")
    print(f"an undisturbed run took {whole.seconds:.1f} s", flush=True)
    while _wanted(order, figures):
        home, log = folder / f"home{figures.runs}", folder / f"log{figures.runs}"
        scene = Scene(home, log, draw, whole.seconds, whole.room, figures.hit)
        with small_disk(home, wanted="full" in order.kinds), scene.ended():
            one_run(scene, order, figures)
            figures.runs += 1
            hold(scene, whole, figures)
        lost = [f"run {figures.runs} in {home}: {what}" for what in scene.lost]
        figures.lost += lost
        print(*lost, sep="\n", end="\n" if lost else "", flush=True)
        if not scene.lost:  # else somebody will want to look at it
            shutil.rmtree(home)
        print(f"{figures.faults} faults, {figures.runs} runs, {len(figures.lost)} lost", flush=True)
    return figures


def _wanted(order: Order, figures: Figures) -> bool:
    return figures.faults < order.faults and time.monotonic() < order.until


def one_run(scene: Scene, order: Order, figures: Figures) -> None:
    """Disturb one run until it ends, or until no more faults are wanted; then let it end."""
    ended = False
    while _wanted(order, figures) and not ended:
        before = len(scene.kills)
        kind = scene.draw.choice(order.kinds)
        ended = KINDS[kind](scene)
        # A kill that came after the end was none.
        figures.faults += len(scene.kills) - before if kind == "kill" else 1
        _write(order, figures, scene.kills[before:])
    scene.rest()


def _write(order: Order, figures: Figures, kills: list[dict[str, Any]]) -> None:
    if order.record is not None and kills:
        with order.record.open("a") as file:
            for kill in kills:
                file.write(json.dumps({"seed": order.seed, "run": figures.runs, **kill}) + "\n")


def hold(scene: Scene, whole: Whole, figures: Figures) -> None:
    """Run once more, and hold what came out to the run that nothing happened to."""
    last = call("run", RECIPE_FOLDER, "--home", scene.home)
    if last.returncode:
        scene.lost.append(f"it ended with {last.returncode}: {last.stdout[-400:]} {last.stderr[-400:]}")
        return
    scene.settle()
    found = made(scene.home)
    scene.lost += [f"{id} differs" for id, digests in whole.stages.items() if found.get(id) != digests]
    scene.lost += half_made(scene.home) + ran_twice(scene.home) + began_again(scene)
    figures.left += sum(1 for _ in (scene.home / "work").iterdir())


def began_again(scene: Scene) -> list[str]:
    """Steps that had written their receipt when they were cut off, and began once more after that."""
    store = scene.home / "store"
    return [
        f"{key} began again though it had finished"
        for key, times in scene.finished.items()
        if begun(store / key / "record") != times
    ]


def ran_twice(home: Path) -> list[str]:
    """Steps that ran again after they had finished, by the journals. What was damaged has to.

    Of two clients at once, one may have been killed over a step that the other then took: its row, which
    says that the step is running, began before the other's ended.
    """
    damaged = {path.name.partition("-")[0] for path in (home / "store").glob(".damaged/*")}
    finished: dict[str, float] = {}
    twice: list[str] = []
    for run in sorted((home / "runs").iterdir()):
        try:
            with closing(sqlite3.connect(run / "journal.sqlite")) as db:
                rows = db.execute("SELECT id, key, state, began, ended FROM step").fetchall()
        except sqlite3.Error:  # a damaged journal, or a client that died before it had one
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
    options.add_argument("--kinds", default=",".join(KINDS), help="which faults, all if not given")
    options.add_argument("--minutes", type=float, default=float("inf"), help="begin no fault after this long")
    options.add_argument("--record", type=Path, help="a file that a line is added to for each kill")
    options.add_argument("--folder", type=Path, help="where to work; what was lost is left there")
    given = options.parse_args()
    kinds = given.kinds.split(",")
    print(f"seed {given.seed}")
    if given.folder is not None:
        given.folder.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="chaos-", dir=given.folder))
    if "full" in kinds and not can_mount(folder / "tried"):
        print("no disk is filled: only root can mount one that is small")
        kinds.remove("full")
    until = time.monotonic() + 60 * given.minutes
    figures = chaos(Order(kinds, given.faults, given.seed, until, given.record), folder)
    for what, count in figures.hit.most_common():
        print(f"{count:5}  {what}")
    print(*figures.lost, sep="\n")
    print(
        f"{figures.faults} faults in {figures.runs} runs: {len(figures.lost)} lost;"
        f" {figures.left} things left under work/"
    )
    if figures.lost:
        print(f"see {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.TimeoutExpired as error:
        sys.exit(f"something hung: {error}")
