"""A home that a run is carried out in, in spite of everything, and the client that does so."""

import contextlib
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.recipe_command import RECIPE, wait_until, workers_of
from tests.runtime.chaos_moments import Seen, attempts, look
from tests.runtime.processes import kill_now

from posttrain.runtime.keeping.store import Store

RECIPE_FOLDER = Path(__file__).parents[1] / "recipes" / "chaos"
SECONDS = 300


@dataclass
class Scene:
    """A home that a run is carried out in, in spite of everything."""

    home: Path
    log: Path
    draw: random.Random
    # How long an undisturbed run takes, and how much room it needs.
    seconds: float
    room: int
    hit: Counter[str] = field(default_factory=Counter[str])
    lost: list[str] = field(default_factory=list[str])
    kills: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    # Steps that had finished when they were cut off: how often each had begun by then.
    finished: dict[str, int] = field(default_factory=dict[str, int])
    committed: set[str] = field(default_factory=set[str])
    client: subprocess.Popen[bytes] | None = None
    began: float = 0.0
    # Runs, and attempts at steps, that there were before the client began.
    runs_before: int = 0
    attempts_before: dict[str, int] = field(default_factory=dict[str, int])
    # Whether something that the client had started was killed, and where its words in the log begin.
    wounded: bool = False
    log_from: int = 0

    def begin(
        self, environment: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as output:
            return subprocess.Popen(
                [*RECIPE, "run", str(RECIPE_FOLDER), "--home", str(self.home)],
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                cwd=cwd,
                env={**os.environ, **(environment or {})},
            )

    def running(self, environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """The client that is there, or a new one."""
        if self.client is None:
            self.runs_before, self.attempts_before = self.count_runs(), attempts(self.home)
            self.wounded, self.log_from = False, self.log_size()
            self.client = self.begin(environment)
            self.began = time.monotonic()
        return self.client

    def log_size(self) -> int:
        return self.log.stat().st_size if self.log.exists() else 0

    def rest(self) -> bool:
        """Let the client that is there come to its end; whether it ended well."""
        client, self.client = self.client, None
        ended = None if client is None else client.wait(timeout=SECONDS)
        self.settle()
        if ended is not None:
            self._hold_to_its_word(ended)
        return ended == 0

    def _hold_to_its_word(self, ended: int) -> None:
        """A client that nobody killed fails only where its worker was, and says so."""
        said = self.log.read_bytes()[self.log_from :].decode(errors="replace")
        if ended not in (0, -signal.SIGKILL) and not (self.wounded and "signal 9" in said):
            self.lost.append(f"the client ended with {ended}: {said[-600:]}")
        if "Traceback" in said or "mistake of ours" in said:
            self.lost.append(f"the client was surprised: {said[-600:]}")

    def settle(self) -> None:
        """Wait for the end of all processes."""
        wait_until(lambda: not workers_of(self.home), "the end of all processes", seconds=60)

    @contextlib.contextmanager
    def ended(self) -> Generator[None]:
        """Leave no client behind, whatever goes wrong."""
        try:
            yield
        finally:
            if self.client is not None:
                kill_now(self.client.pid)
                self.client.wait()

    def count_runs(self) -> int:
        return sum(1 for _ in self.home.glob("runs/*/plan.json"))

    def see(self) -> Seen:
        """What lies in the home, with nobody at work there."""
        seen = look(self.home, self.attempts_before, self.committed)
        self.committed |= seen.committed
        self.finished |= seen.finished
        return seen

    def doing(self) -> str:
        """The stages under way, by their workplaces."""
        return "+".join(sorted(sight.id for sight in look(self.home).sights)) or "between steps"


def half_made(home: Path) -> list[str]:
    """What stands in the store without being whole."""
    store = Store(home / "store")
    found: list[str] = []
    for key in store.all_keys():
        made = store.find(key)
        what = "it is not whole" if made is None else store.damage(made)
        found += [f"in the store under {key}: {what}"] if what else []
    return found
