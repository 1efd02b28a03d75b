"""Pools of nodes that take the steps of a home in turn.

A client offers a step as an empty file in HOME/nodes/POOL/offers. A program on a node of the pool claims it
(`attempt_files.py`), so that no two programs run it. The client submits a job only if there are more
unfinished steps than jobs.
"""

import time
from collections.abc import Iterator
from pathlib import Path

from posttrain.runtime.runners.cluster.attempt_files import AttemptFiles, current_attempt
from posttrain.runtime.store.home import Home
from posttrain.spec.record import record


@record
class Offer:
    """An offered attempt of a step."""

    file: Path
    attempt: AttemptFiles

    def is_open(self) -> bool:
        """Whether a job can still take it; otherwise it is removed."""
        current = current_attempt(self.attempt.work)
        is_open = current is not None and current.token == self.attempt.token
        is_open = is_open and self.attempt.claimed_by() is None
        if not is_open:
            self.withdraw()
        return is_open

    def withdraw(self) -> None:
        self.file.unlink(missing_ok=True)


@record
class NodePool:
    """The folder of a pool."""

    folder: Path

    def offer(self, files: AttemptFiles) -> None:
        """Offer an attempt to the nodes of the pool."""
        offers = self.folder / "offers"
        offers.mkdir(parents=True, exist_ok=True)
        # The oldest offer comes first.
        (offers / f"{time.time_ns():020d}-{files.work.name}-{files.token}").touch()

    def open_offers(self) -> int:
        """The number of offers that no job has taken. Void ones are removed."""
        return sum(1 for offer in self._offers() if offer.is_open())

    def busy_jobs(self) -> frozenset[str]:
        """The ids of the jobs that run a step."""
        try:
            return frozenset(path.name for path in (self.folder / "busy").iterdir())
        except FileNotFoundError:
            return frozenset()

    def mark_busy(self, job: str) -> None:
        (self.folder / "busy").mkdir(exist_ok=True)
        (self.folder / "busy" / job).touch()

    def mark_free(self, job: str) -> None:
        (self.folder / "busy" / job).unlink(missing_ok=True)

    def next_offer(self) -> Offer | None:
        """The oldest open offer."""
        return next((offer for offer in self._offers() if offer.is_open()), None)

    def _offers(self) -> Iterator[Offer]:
        try:
            names = sorted(path.name for path in (self.folder / "offers").iterdir())
        except FileNotFoundError:
            return
        for name in names:
            _, key, token = name.split("-")
            files = AttemptFiles(Home(self.folder.parent.parent).workdir(key), token)
            yield Offer(self.folder / "offers" / name, files)


def pool_of(home: Home, name: str) -> NodePool:
    return NodePool(home.node_pools / name)
