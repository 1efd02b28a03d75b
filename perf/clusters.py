"""Measures steps on real clusters, relative to this machine, and counts what killed clients lose.

    python -m perf.clusters [--steps 8] [--kills 20] [--on slurm,ray] [PART ...]

Parts: `overhead` (wall time of a small step in addition to the same step here), `infeasible` (time until a
request that no node meets is reported), `matrix` (calls to the engine during a matrix of 20 legs), `kills`
(clients killed at random times), `quickstart` (digests of all products; takes minutes). The clusters are
those of the tests: POSTTRAIN_TEST_SLURM and POSTTRAIN_TEST_RAY.
"""

import argparse
import itertools
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.runtime.cluster.engines import TestCluster, ray_cluster, slurm_cluster

ROOT = Path(__file__).parent.parent

RECIPE = [sys.executable, "-m", "posttrain.cli.main"]
PARTS = ("overhead", "infeasible", "matrix", "kills", "quickstart")
# Records each start, then works for a while.
PROGRAM = 'echo begun >> "{folder}/begun-{name}"; sleep {seconds}; echo done > $OUT/result'


_RECORDING_CLIENT = """
import time
from posttrain.cli.main import run
from posttrain.runtime.runners.cluster.ray_scheduler import RayScheduler

call, files = RayScheduler._call, {{"submit": "submissions", "jobs": "polls"}}

def record(self, request):
    with open("{calls}/" + files.get(request["call"], "others"), "a") as file:
        file.write(f"{{time.time()}}\\n")
    return call(self, request)

RayScheduler._call = record
run()
"""


def write_chain(folder: Path, steps: int, seconds: float) -> Path:
    """A recipe of programs, each of which reads the product of the one before."""
    folder.mkdir(parents=True, exist_ok=True)
    stages: dict[str, Any] = {}
    for number in range(steps):
        name = f"step{number}"
        program = PROGRAM.format(folder=folder, name=name, seconds=seconds)
        before = {"inputs": {"before": f"step{number - 1}"}} if number else {}
        stages[name] = {"script": ["sh", "-c", program], **before}
    (folder / "recipe.yaml").write_text(json.dumps({"recipe": 1, "name": "chain", "stages": stages}))
    return folder


def write_matrix(folder: Path, legs: int, seconds: float) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    program = f"sleep {seconds}; echo ${{matrix.leg}} > $OUT/result"
    recipe = {
        "recipe": 1,
        "name": "legs",
        "matrix": {"leg": list(range(legs))},
        "stages": {"work": {"script": ["sh", "-c", program]}},
    }
    (folder / "recipe.yaml").write_text(json.dumps(recipe))
    return folder


def run(*arguments: str | Path, fails: bool = False) -> float:
    """The wall time of a command."""
    began = time.monotonic()
    done = subprocess.run([*RECIPE, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return time.monotonic() - began


def step_seconds(home: Path) -> list[float]:
    """The time from the end of each step to the end of the next one, without the first step."""
    status = subprocess.run(
        [*RECIPE, "status", "--home", str(home), "--format", "json"],
        capture_output=True,
        text=True,
        check=True,
    )
    ended = [step["ended"] for step in json.loads(status.stdout)["steps"]]
    return [after - before for before, after in itertools.pairwise(ended)]


@contextmanager
def declared(cluster: TestCluster, folder: Path, **options: Any) -> Generator[tuple[str, str]]:
    """The options of a command that runs on the cluster."""
    file = folder / "places.yaml"
    cluster.declare(file, **options)
    os.environ["RECIPE_PLACES"] = str(file)
    yield "--on", "cluster"


def measure_overhead(clusters: Mapping[str, TestCluster], folder: Path, steps: int) -> None:
    recipe = write_chain(folder / "chain", steps, 0.2)
    print(f"\n| place | {steps} steps, s | s per step more than here |\n|---|---|---|")
    run("run", recipe, "--home", folder / "local")
    local = statistics.median(step_seconds(folder / "local"))
    print(f"| here | {local * steps:.1f} | |")
    for name, cluster in clusters.items():
        for kind, options in (("own jobs", {}), ("kept alive", {"keep_alive_seconds": 5})):
            home = folder / f"{name}-{kind.replace(' ', '-')}"
            with declared(cluster, folder, **options) as on:
                run("run", recipe, "--home", home, *on)
            each = step_seconds(home)
            more = statistics.median(each) - local
            print(f"| {name}, {kind} | {sum(each):.1f} | {more:.2f} |", flush=True)
        cluster.wait_until_empty(30)


def measure_infeasible(clusters: Mapping[str, TestCluster], folder: Path) -> None:
    recipe = write_chain(folder / "never", 2, 0.1)
    print("\n| place | s until an infeasible request is reported | of `plan`, s |\n|---|---|---|")
    plan = statistics.median(run("plan", recipe, "--home", folder / "plan") for _ in range(3))
    for name, cluster in clusters.items():
        with declared(cluster, folder, cpus=512) as on:
            times = [run("run", recipe, "--home", folder / "never-home", *on, fails=True) for _ in range(5)]
        print(f"| {name} | {statistics.median(times):.1f} | {plan:.1f} |", flush=True)


def measure_matrix(clusters: Mapping[str, TestCluster], folder: Path) -> None:
    """Count the calls to each engine: the programs of Slurm, and the requests to Ray."""
    recorders = {"slurm": _record_programs, "ray": _record_requests}
    recipe = write_matrix(folder / "matrix", 20, 3.0)
    print("\n| place | legs | s | submissions | polls | least s between polls |\n|---|---|---|---|---|---|")
    for name, cluster in clusters.items():
        calls = folder / f"{name}-calls"
        calls.mkdir()
        with declared(cluster, folder, memory_gb=0.1) as on, recorders[name](calls):
            seconds = run("run", recipe, "--home", folder / f"{name}-matrix-home", *on)
        submissions, polls = _times(calls / "submissions"), _times(calls / "polls")
        gaps = [after - before for before, after in itertools.pairwise(polls)]
        least = f"{min(gaps):.2f}" if gaps else ""
        print(f"| {name} | 20 | {seconds:.1f} | {len(submissions)} | {len(polls)} | {least} |", flush=True)


@contextmanager
def _record_programs(calls: Path) -> Generator[None]:
    """Programs that record a call and pass it on. The check of the preflight is a submission, too."""
    for name, file in (("squeue", "polls"), ("sbatch", "submissions")):
        program, real = calls / name, shutil.which(name)
        program.write_text(f'#!/bin/sh\ndate +%s.%N >> {calls / file}\nexec {real} "$@"\n')
        program.chmod(0o755)
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{calls}:{before}"
    yield
    os.environ["PATH"] = before


@contextmanager
def _record_requests(calls: Path) -> Generator[None]:
    """A client that records each request to the process that has the connection to Ray."""
    program = calls / "client.py"
    program.write_text(_RECORDING_CLIENT.format(calls=calls))
    before = RECIPE[:]
    RECIPE[1:] = [str(program)]
    yield
    RECIPE[:] = before


def _times(file: Path) -> list[float]:
    return [float(line) for line in file.read_text().splitlines()] if file.exists() else []


def measure_kills(clusters: Mapping[str, TestCluster], folder: Path, kills: int) -> None:
    print("\n| place | kills | clients | steps | run twice | lost | jobs left | processes left |")
    print("|---|---|---|---|---|---|---|---|")
    for name, cluster in clusters.items():
        print(
            f"| {name} | {' | '.join(map(str, _kill_clients(cluster, folder / name, kills)))} |", flush=True
        )


def _kill_clients(cluster: TestCluster, folder: Path, kills: int) -> Sequence[int]:
    """Kill clients at random times; run to the end after every fourth kill, then begin a new home."""
    chance = random.Random(7)
    killed = clients = steps = twice = lost = 0
    folder.mkdir()
    with declared(cluster, folder) as on:
        while killed < kills:
            place = folder / f"home-{clients}"
            recipe = write_chain(place / "chain", 4, 0.7)
            for _ in range(min(4, kills - killed)):
                killed += _kill_one(recipe, place / "home", on, chance.uniform(0.5, 7.0))
                clients += 1
            run("run", recipe, "--home", place / "home", *on)
            clients += 1
            starts = [len((recipe / f"begun-step{n}").read_text().splitlines()) for n in range(4)]
            steps, twice = steps + 4, twice + sum(count - 1 for count in starts)
            lost += 4 - len(list((place / "home/store").glob("*/manifest.json")))
    left = cluster.wait_until_empty(20)
    return killed, clients, steps, twice, lost, len(left), _processes(folder)


def _kill_one(recipe: Path, home: Path, on: tuple[str, str], seconds: float) -> int:
    """1 if the client was killed before it ended."""
    client = subprocess.Popen(
        [*RECIPE, "run", str(recipe), "--home", str(home), *on],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        client.wait(seconds)
    except subprocess.TimeoutExpired:
        client.send_signal(signal.SIGKILL)
        client.wait()
        return 1
    return 0


def _processes(folder: Path) -> int:
    """The processes with a path of this folder in their arguments."""
    found = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                found += str(folder).encode() in (entry / "cmdline").read_bytes()
            except OSError:
                continue
    return found


def compare_quickstart(clusters: Mapping[str, TestCluster], folder: Path) -> None:
    recipe = ROOT / "recipes" / "quickstart"
    print("\n| place | products | files | different files |\n|---|---|---|---|")
    run("run", recipe, "--home", folder / "quick-here")
    expected = _digests(folder / "quick-here")
    for name, cluster in clusters.items():
        with declared(cluster, folder, keep_alive_seconds=20) as on:
            run("run", recipe, "--home", folder / f"quick-{name}", *on)
        found = _digests(folder / f"quick-{name}")
        different = sum(found.get(file) != digest for file, digest in expected.items())
        products = len({key for key, _ in found})
        print(f"| {name} | {products} | {len(found)} | {different} |", flush=True)


def _digests(home: Path) -> dict[tuple[str, str], str]:
    manifests = {
        path.parent.name: json.loads(path.read_text()) for path in home.glob("store/*/manifest.json")
    }
    return {
        (key, name): file["sha256"] for key, one in manifests.items() for name, file in one["files"].items()
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--on", default="slurm,ray")
    options = parser.parse_args()
    makers = {"slurm": slurm_cluster, "ray": ray_cluster}
    found = {name: makers[name]() for name in options.on.split(",")}
    clusters = {name: cluster for name, cluster in found.items() if cluster is not None}
    print(
        f"clusters: {', '.join(clusters) or 'none'}; load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores"
    )
    with tempfile.TemporaryDirectory(prefix="clusters-") as scratch:
        folder = Path(scratch)
        for part in options.parts or PARTS:
            match part:
                case "overhead":
                    measure_overhead(clusters, folder, options.steps)
                case "infeasible":
                    measure_infeasible(clusters, folder)
                case "matrix":
                    measure_matrix(clusters, folder)
                case "kills":
                    (folder / "kills").mkdir()
                    measure_kills(clusters, folder / "kills", options.kills)
                case _:
                    compare_quickstart(clusters, folder)
    for cluster in clusters.values():
        cluster.scheduler.close()


if __name__ == "__main__":
    main()
