"""Measures `recipe ui`: its start relative to `recipe --version`, and its pages with many runs and points.

python perf/ui.py [--runs 1000] [--points 10_000_000] [--rounds 9]
"""

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cpu_time import RECIPE_COMMAND

from posttrain.cli.compile import compile_file
from posttrain.runtime.store.file_locks import acquire_lock
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.journal import Journal
from posttrain.runtime.store.runs import finish_run, new_run, run_key
from posttrain.spec.plan import Plan

RECIPE = Path(__file__).parent.parent / "recipes" / "quickstart" / "recipe.yaml"
METRICS = 10
STATES = ("done", "done", "done", "failed", "interrupted")


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--runs", type=int, default=1_000)
    options.add_argument("--points", type=int, default=10_000_000)
    options.add_argument("--rounds", type=int, default=9)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder) / "home")
        plan = compile_file(RECIPE, (), ())[0].plan
        assert plan is not None
        measure_start(home, given.rounds)
        write_runs(home, plan, given.runs - 1)
        run, events = write_long_run(home, plan, given.points)
        lock = acquire_lock(home.run_lock(run))
        print(
            f"{given.runs:,} runs; {given.points:,} points in {events.stat().st_size / 1e6:.0f} MB",
            flush=True,
        )
        with server(home) as (process, url):
            watch = Stopwatch(process.pid)
            measure_list(url, watch)
            measure_run(f"{url}run/0/{run.name}/", url, events, watch)
            print(f"{'peak memory of the server':44} {peak_mib(process.pid):8.0f} MiB")
        lock.discard()


def write_runs(home: Home, plan: Plan, count: int) -> None:
    for number in range(count):
        run = new_run(home, plan, RECIPE)
        journal = Journal(run / "journal.sqlite")
        states = {step.id: STATES[(number + place) % len(STATES)] for place, step in enumerate(plan.steps)}
        if number % 2:
            states = dict.fromkeys(states, "done")
        for id, state in states.items():
            journal.update_step(id, state, reason="", attempt=1, cost={"seconds": 1.0})
        finish_run(journal, states)
        journal.close()


def write_long_run(home: Home, plan: Plan, points: int) -> tuple[Path, Path]:
    """A run whose first training has so many points."""
    run = new_run(home, plan, RECIPE)
    step = next(step for step in plan.steps if step.kind == "train")
    record = home.workdir(run_key(step, run.name)) / "record"
    record.mkdir(parents=True)
    with (record / "events.jsonl").open("w") as file:
        file.write(json.dumps({"at": 0.0, "kind": "started", "attempt": 1}) + "\n")
        file.writelines(metrics_line(number) for number in range(points // METRICS))
    journal = Journal(run / "journal.sqlite")
    journal.update_step(step.id, "running", reason="", attempt=1)
    journal.close()
    return run, record / "events.jsonl"


def metrics_line(step: int) -> str:
    values = {f"metric_{n}": (step * 7919 * (n + 1) % 10_007) / 10_007 for n in range(METRICS - 1)}
    event = {"at": float(step), "kind": "metrics", "step": step, "values": {"loss": 1 / (step + 1), **values}}
    return json.dumps(event) + "\n"


@contextmanager
def server(home: Home) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    command = [*RECIPE_COMMAND, "ui", "--home", str(home.root), "--no-open"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def measure_start(home: Home, rounds: int) -> None:
    """The time until the address is printed and until a request is answered; both commands alternate."""
    times: dict[str, list[float]] = {"version": [], "address": [], "answer": []}
    for _ in range(rounds + 1):
        began = time.monotonic()
        subprocess.run([*RECIPE_COMMAND, "--version"], check=True, capture_output=True)
        times["version"].append(time.monotonic() - began)
        began = time.monotonic()
        with server(home) as (_, url):
            times["address"].append(time.monotonic() - began)
            fetch(url)
            times["answer"].append(time.monotonic() - began)
    medians = {name: statistics.median(taken[1:]) for name, taken in times.items()}
    for name, label in (
        ("version", "recipe --version"),
        ("address", "recipe ui, until its address is printed"),
        ("answer", "recipe ui, until the first page is there"),
    ):
        ratio = medians[name] / medians["version"]
        print(f"{label:44} {medians[name]:8.3f} s {ratio:8.2f} x", flush=True)


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=600) as answer:
        return answer.read().decode()


class Stopwatch:
    """Prints the time of a request, and the CPU time of the server: the first depends on other work."""

    def __init__(self, pid: int) -> None:
        self._stat = Path(f"/proc/{pid}/stat")

    def time(self, label: str, work: Callable[[], object]) -> None:
        began, cpu = time.monotonic(), self._cpu_seconds()
        work()
        self.print(label, time.monotonic() - began, self._cpu_seconds() - cpu)

    def print(self, label: str, seconds: float, cpu: float) -> None:
        print(f"{label:44} {seconds * 1000:8.0f} ms {cpu * 1000:8.0f} ms CPU", flush=True)

    def _cpu_seconds(self) -> float:
        fields = self._stat.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure_list(url: str, watch: Stopwatch) -> None:
    watch.time("list, first", lambda: fetch(url))
    time.sleep(4)
    watch.time("list, again", lambda: fetch(url))
    watch.time("list, last page", lambda: fetch(f"{url}?page=999"))
    watch.time("list, by state, first", lambda: fetch(f"{url}?state=failed"))
    watch.time("list, by another state", lambda: fetch(f"{url}?state=finished"))
    watch.time("list, by name", lambda: fetch(f"{url}?text=quick"))


def measure_run(page: str, url: str, events: Path, watch: Stopwatch) -> None:
    watch.time("run page, first", lambda: fetch(page))
    watch.time("all points read", lambda: read_all(page, url))
    time.sleep(5)
    watch.time("run page, all read", lambda: fetch(page))
    with urllib.request.urlopen(f"{page}events?after=") as stream:
        first = first_data(stream)
        print(f"{'size of all blocks':44} {len(first) / 1e3:8.0f} kB")
        with events.open("a") as file:
            file.writelines(metrics_line(2 * 10**6 + step) for step in range(100))
        watch.time("1,000 new points until the page has them", lambda: first_data(stream))


def read_all(page: str, url: str) -> None:
    """Look at the page until it has all points, and at the list meanwhile."""
    slowest = 0.0
    while "Reading the events" in fetch(page):
        asked = time.monotonic()
        fetch(f"{url}?text={asked}")
        slowest = max(slowest, time.monotonic() - asked)
        time.sleep(0.2)
    print(f"{'list meanwhile, the slowest':44} {slowest * 1000:8.0f} ms", flush=True)


def first_data(stream: "Iterator[bytes]") -> bytes:
    return next(line for line in stream if line.startswith(b"data:"))


def peak_mib(pid: int) -> float:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None, f"the server {pid} has ended ({os.getpid()})"
    return int(found[1]) / 1024


if __name__ == "__main__":
    main()
