"""Measures multi-node training on real clusters: equality with local ranks, and recovery from faults.

    python -m perf.cluster_faults [--on slurm,ray] [--steps 300] [PART ...]

As root. It starts clusters of three nodes on this machine (`fault_clusters.py`). Part `equal` compares the
bytes of two nodes with those of two local ranks, for each strategy. Each other part is a fault
(`node_faults.py`), from which a training of two nodes recovers: until the fault is named in the output of the
client, until the next optimizer step, and whether the files of the model equal those of an undisturbed run.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from perf.fault_clusters import RayFaults, SlurmFaults, command_line, processes, send, started
from perf.node_faults import FAULTS, Fault
from perf.node_training import RECIPE, Cluster, Training, is_trained, product_digests, write_recipe
from tests.runtime.distributed.fsdp_on_cpu import FAKE_GPU_SITECUSTOMIZE
from tests.runtime.resizable_tmpfs import resizable_tmpfs

STRATEGIES = ("ddp", "zero1", "zero2", "zero3", "fsdp")


def run(*arguments: str | Path) -> None:
    done = subprocess.run([*RECIPE, "run", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def measure_fault(
    cluster: Cluster, folder: Path, recipe: Path, name: str, expected: Mapping[str, str]
) -> Sequence[str]:
    """A row of the table: the fault, seconds until it is named, until the next step, attempts, equality."""
    fault, home = FAULTS[name], folder / name
    with resizable_tmpfs(home, wanted=fault.on_own_disk):
        shutil.copytree(folder / "prepared", home, dirs_exist_ok=True)
        training = Training(cluster, recipe, home)
        try:
            return _follow(training, fault, expected)
        finally:
            training.client.kill()
            training.client.wait()
            end_leftovers(training)


def _follow(training: Training, fault: Fault, expected: Mapping[str, str]) -> Sequence[str]:
    training.wait_until(lambda: training.checkpoints() >= 2, "checkpoint")
    at = time.time()
    pattern, named, again = fault.inject(training), "", ""
    if pattern:
        training.wait_until(lambda: re.search(pattern, training.log.read_text()), pattern, 120)
        named = f"{time.time() - at:.1f}"
    training.client.wait(600)
    if fault.repair is not None:
        assert training.client.returncode != 0, "the run went on"
        fault.repair(training)
        at = time.time()
        training.client = training.start_client()
        training.client.wait(600)
    assert training.client.returncode == 0, training.log.read_text()[-2000:]
    restarts = [event["at"] for event in training.events() if event["kind"] == "resumed"]
    if restarts and (resumed := training.step_after(restarts[0])) is not None:
        again = f"{resumed - at:.1f}"
    same = "yes" if product_digests(training.home) == expected else "NO"
    return fault.title, named, again, str(training.attempts()), same


def end_leftovers(training: Training) -> None:
    """Continue what is frozen, which ends by itself then, and wait until the cluster is empty."""
    left = [pid for pid in processes() if str(training.home) in command_line(pid)]
    for pid in (*training.frozen, *left):
        send(pid, signal.SIGCONT)
    for job in training.cluster.connected.wait_until_empty(40):
        training.cluster.connected.scheduler.kill(job.id)
    deadline = time.monotonic() + 30
    while any(str(training.home) in command_line(pid) for pid in processes()):
        assert time.monotonic() < deadline, "processes of the run remain"
        time.sleep(0.2)


def measure_faults(cluster: Cluster, folder: Path, names: Sequence[str], steps: int) -> None:
    recipe = write_recipe(folder / "recipe", "ddp", steps, 2)
    training = Training(cluster, recipe, folder / "prepared")
    assert training.client.wait(600) == 0, training.log.read_text()
    expected = product_digests(training.home)
    # Of the undisturbed run, the faults start with the model and the data.
    for path in (folder / "prepared").glob("store/*/manifest.json"):
        if is_trained(path):
            shutil.rmtree(path.parent)
    print("\n| fault | s until named | s until training | attempts | equal weights |\n|---|---|---|---|---|")
    for name in names:
        try:
            row = measure_fault(cluster, folder, recipe, name, expected)
        except AssertionError as error:
            row = (FAULTS[name].title, "failed", str(error).replace("\n", " ")[-300:], "", "")
        print(f"| {' | '.join(row)} |", flush=True)
        cluster.repair()


def compare_strategies(cluster: Cluster, folder: Path) -> None:
    """The bytes of two nodes and of two local ranks."""
    (folder / "site").mkdir(parents=True)
    (folder / "site/sitecustomize.py").write_text(FAKE_GPU_SITECUSTOMIZE)
    print("\n| strategy | files | different from two local ranks |\n|---|---|---|")
    for strategy in STRATEGIES:
        patched = {"PYTHONPATH": str(folder / "site")} if strategy == "fsdp" else {}
        cluster.connected.declare(folder.parent / "places.yaml", environment=patched)
        found: list[dict[str, str]] = []
        for nodes, on in ((1, ()), (2, ("--on", "cluster"))):
            recipe = write_recipe(folder / f"{strategy}-{nodes}", strategy, 20, nodes)
            os.environ |= patched
            run(recipe, "--home", folder / f"home-{strategy}-{nodes}", *on)
            for name in patched:
                os.environ.pop(name)
            found.append(product_digests(folder / f"home-{strategy}-{nodes}"))
        names = found[0].keys() | found[1].keys()
        different = sum(found[0].get(name) != found[1].get(name) for name in names)
        print(f"| {strategy} | {len(names)} | {different} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", choices=["equal", *FAULTS, []], default=[])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--on", default="slurm,ray")
    options = parser.parse_args()
    kinds: dict[str, type[SlurmFaults] | type[RayFaults]] = {"slurm": SlurmFaults, "ray": RayFaults}
    # A short path: Ray has sockets below it.
    with tempfile.TemporaryDirectory(prefix="cf-") as scratch:
        for engine in options.on.split(","):
            folder = Path(scratch) / engine
            with started(kinds[engine], folder / "c") as cluster:
                os.environ["RECIPE_PLACES"] = str(folder / "places.yaml")
                cluster.connected.declare(folder / "places.yaml")
                print(f"\n## {engine}; load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores")
                parts = options.parts or ["equal", *FAULTS]
                if "equal" in parts:
                    compare_strategies(cluster, folder / "equal")
                    cluster.connected.declare(folder / "places.yaml")
                faults = [name for name in FAULTS if name in parts and engine in FAULTS[name].engines]
                if faults:
                    measure_faults(cluster, folder / "faults", faults, options.steps)


if __name__ == "__main__":
    main()
