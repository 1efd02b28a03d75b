"""A run under faults: its home, and its client."""

import contextlib
import random
import signal
import time
from collections import Counter
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.recipe_command import Process, find_processes, start_command, wait_until
from tests.runtime.chaos_phases import HomeState, inspect_home, read_attempts
from tests.runtime.process_tree import kill_process

from posttrain.runtime.store.integrity import integrity_problem
from posttrain.runtime.store.products import Store

RECIPE_FOLDER = Path(__file__).parents[1] / "recipes" / "chaos"
TIMEOUT_SECONDS = 300


@dataclass
class ChaosRun:
    """A run under faults, in its home."""

    home: Path
    log: Path
    rng: random.Random
    # The duration and the disk usage of an undisturbed run.
    seconds: float
    disk_bytes: int
    hits: Counter[str] = field(default_factory=Counter[str])
    violations: list[str] = field(default_factory=list[str])
    kills: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    # Steps with a receipt at the time of a fault, and the number of their starts by then.
    finished: dict[str, int] = field(default_factory=dict[str, int])
    committed: set[str] = field(default_factory=set[str])
    client: Process | None = None
    started_at: float = 0.0
    # The runs and the attempts of steps before the client started.
    runs_before: int = 0
    attempts_before: dict[str, int] = field(default_factory=dict[str, int])
    # Whether a process of the client was killed, and the offset of its output in the log.
    worker_killed: bool = False
    log_offset: int = 0

    def start_client(self, environment: Mapping[str, str] | None = None, cwd: Path | None = None) -> Process:
        arguments = ("run", RECIPE_FOLDER, "--home", self.home)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in (environment or {}).items():
                patch.setenv(name, value)
            return start_command(*arguments, log=self.log, cwd=cwd)

    def ensure_client(self, environment: Mapping[str, str] | None = None) -> Process:
        """The running client, or a new one."""
        if self.client is None:
            self.runs_before, self.attempts_before = self.count_runs(), read_attempts(self.home)
            self.worker_killed, self.log_offset = False, self.log_size()
            self.client = self.start_client(environment)
            self.started_at = time.monotonic()
        return self.client

    def log_size(self) -> int:
        return self.log.stat().st_size if self.log.exists() else 0

    def wait_for_client(self) -> bool:
        """Wait for the running client; true when it succeeded."""
        client, self.client = self.client, None
        ended = None if client is None else client.wait(timeout=TIMEOUT_SECONDS)
        self.wait_for_processes()
        if ended is not None:
            self._check_client_exit(ended)
        return ended == 0

    def _check_client_exit(self, ended: int) -> None:
        """Check that a client that was not killed fails only after a kill of its worker, and reports it."""
        said = self.log.read_bytes()[self.log_offset :].decode(errors="replace")
        if ended not in (0, -signal.SIGKILL) and not (self.worker_killed and "signal 9" in said):
            self.violations.append(f"the client ended with {ended}: {said[-600:]}")
        if "Traceback" in said or "internal error" in said:
            self.violations.append(f"internal error of the client: {said[-600:]}")

    def wait_for_processes(self) -> None:
        """Wait until all processes have exited."""
        wait_until(lambda: not find_processes(self.home), "the end of all processes", seconds=60)

    @contextlib.contextmanager
    def killing_client(self) -> Generator[None]:
        """Kill the client, if it still runs."""
        try:
            yield
        finally:
            if self.client is not None:
                kill_process(self.client.pid)
                self.client.wait()

    def count_runs(self) -> int:
        return sum(1 for _ in self.home.glob("runs/*/plan.json"))

    def inspect(self) -> HomeState:
        """The state of the home without running processes."""
        seen = inspect_home(self.home, self.attempts_before, self.committed)
        self.committed |= seen.committed
        self.finished |= seen.finished
        return seen

    def active_steps(self) -> str:
        """The unfinished stages, by their working directories."""
        return "+".join(sorted(sight.id for sight in inspect_home(self.home).steps)) or "between steps"


def damaged_products(home: Path) -> list[str]:
    """The incomplete products in the store."""
    store = Store(home / "store")
    found: list[str] = []
    for key in store.all_keys():
        made = store.find(key)
        what = "it is not whole" if made is None else integrity_problem(made)
        found += [f"in the store under {key}: {what}"] if what else []
    return found
