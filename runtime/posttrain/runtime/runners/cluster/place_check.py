"""Checks a place with small jobs on two of its nodes, for `recipe doctor --on NAME`."""

import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from posttrain.runtime import atomic_io
from posttrain.runtime.errors import StepError
from posttrain.runtime.runners.cluster.engines import create_scheduler
from posttrain.runtime.runners.cluster.job_request import JobRequest
from posttrain.runtime.runners.cluster.node_check import CLIENT_TEXT
from posttrain.runtime.runners.cluster.scheduler import JobSpec, Scheduler
from posttrain.runtime.runners.image_check import version_mismatches
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.lock_claims import use_claims, uses_claims
from posttrain.spec.keys import digest
from posttrain.spec.place import Place
from posttrain.spec.record import record

_MODULE = "posttrain.runtime.runners.cluster.node_check"
_CLOCK_SECONDS = 1.0


@record(kw_only=True)
class PlaceFinding:
    """One checked property. A warning does not prevent runs."""

    check: str
    outcome: Literal["ok", "warning", "failed"]
    text: str


def check_place(place: Place, home: Home, seconds: float) -> Iterator[PlaceFinding]:
    """The findings, as they appear. Raises `StepError` if the engine does not answer or rejects the jobs."""
    home.prepare()
    folder = home.root / f"place-check-{digest([str(time.time_ns())])[:8]}"
    folder.mkdir()
    scheduler = create_scheduler(place)
    jobs: list[str] = []
    try:
        (folder / "client").write_text(CLIENT_TEXT)
        scheduler.open()
        nodes = list(scheduler.nodes())[:2]
        if not nodes:
            yield PlaceFinding(
                check="nodes", outcome="failed", text=f"{scheduler.name} has no node that is up"
            )
            return
        yield PlaceFinding(
            check="engine", outcome="ok", text=f"{scheduler.name} answers; nodes: {', '.join(nodes)}"
        )
        for index in range(len(nodes)):
            # Not in one expression: if the second is rejected, the first is known and ends.
            job = scheduler.submit(_job(place, folder, index, nodes))
            jobs.append(job)
        results = _wait_for_results(folder, len(nodes), seconds)
        yield from _node_findings(nodes, results, folder, seconds)
        if len(nodes) == 2 and len(results) == 2:
            yield from _pair_findings(results[0], results[1], home)
        elif len(nodes) == 1:
            text = "one node is up: nothing between nodes was checked"
            yield PlaceFinding(check="second node", outcome="warning", text=text)
    finally:
        _clean_up(scheduler, jobs, folder)


def _job(place: Place, folder: Path, index: int, nodes: Sequence[str]) -> JobSpec:
    python = place.python or sys.executable
    return JobSpec(
        name=f"posttrain-check-{digest([str(folder), index])[:16]}",
        command=[python, "-m", _MODULE, str(folder), str(index), str(len(nodes))],
        request=JobRequest(cpus=1, memory_gb=place.memory_gb, gpus=1 if place.gpus_per_node else 0),
        output=folder / f"output-{index}",
        node=nodes[index],
    )


def _wait_for_results(folder: Path, count: int, seconds: float) -> dict[int, Mapping[str, Any]]:
    deadline = time.monotonic() + seconds
    found: dict[int, Mapping[str, Any]] = {}
    while len(found) < count and time.monotonic() < deadline:
        for index in range(count):
            result = atomic_io.read_json(folder / f"result-{index}")
            if result is not None:
                found[index] = result
        time.sleep(0.05)
    return found


def _node_findings(
    nodes: Sequence[str], results: Mapping[int, Mapping[str, Any]], folder: Path, seconds: float
) -> Iterator[PlaceFinding]:
    for index, node in enumerate(nodes):
        result = results.get(index)
        if result is None:
            yield PlaceFinding(check=f"node {node}", outcome="failed", text=_silence(folder, index, seconds))
            continue
        seen = f"files of the client are visible ({result['file_system']})"
        yield _flag(f"folder {node}", result["client_visible"], seen, "not visible")
        yield _flag(f"rename {node}", result["renames"], "renames are atomic", "a renamed file was missing")
        wrong = version_mismatches(result["versions"])
        text = ", ".join(f"{name} {has} (planned: {wanted})" for name, wanted, has in wrong)
        right = f"{result['python']} has the planned versions"
        yield _flag(f"stack {node}", not wrong, right, f"{result['python']}: {text}")
        yield PlaceFinding(
            check=f"GPUs {node}", outcome="ok", text=", ".join(result["gpus"]) or "none visible to a job"
        )


def _silence(folder: Path, index: int, seconds: float) -> str:
    try:
        lines = (folder / f"output-{index}").read_text(errors="replace").strip().splitlines()
    except OSError:
        return f"no result within {seconds:g} s: its job did not start, or the home is not on a shared disk"
    return f"its job ended without a result: {lines[-1]}" if lines else f"no result within {seconds:g} s"


def _pair_findings(first: Mapping[str, Any], second: Mapping[str, Any], home: Home) -> Iterator[PlaceFinding]:
    visible = bool(first.get("peer_visible") and second.get("peer_visible"))
    yield _flag(
        "between nodes", visible, "each node sees the other's files", "a node misses the other's files"
    )
    if not visible:
        return
    yield _lock_finding(home, shared=bool(second.get("lock_shared")))
    if "clock_difference" in first:
        difference, error = abs(first["clock_difference"]), first["clock_error"]
        text = f"the clocks differ by {difference:.3f} s, within {error:.3f} s"
        far = difference - error > _CLOCK_SECONDS
        yield PlaceFinding(check="clocks", outcome="warning" if far else "ok", text=text)


def _lock_finding(home: Home, *, shared: bool) -> PlaceFinding:
    """Locks that hold on one node only need claims, which this home uses from now on."""
    folder = home.workdir("any").parent
    if shared and not uses_claims(folder):
        return PlaceFinding(check="locks", outcome="ok", text="a lock of one node holds on the other")
    use_claims(folder)
    why = "the file system may not share locks" if shared else "a lock of one node does not hold on the other"
    text = f"{why}: the home has claim files (docs/clusters.md)"
    return PlaceFinding(check="locks", outcome="ok" if shared else "warning", text=text)


def _flag(check: str, holds: bool, right: str, wrong: str) -> PlaceFinding:
    return PlaceFinding(check=check, outcome="ok" if holds else "failed", text=right if holds else wrong)


def _clean_up(scheduler: Scheduler, jobs: Sequence[str], folder: Path) -> None:
    try:
        for job in jobs:
            scheduler.kill(job)
    except StepError:
        pass  # the engine does not answer; the jobs end by themselves
    scheduler.close()
    shutil.rmtree(folder, ignore_errors=True)
