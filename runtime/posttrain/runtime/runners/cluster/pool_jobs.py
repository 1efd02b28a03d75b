"""The jobs of a pool, as a client submits them."""

import threading
import time

from posttrain.runtime.runners.cluster.job_monitor import JobSnapshot
from posttrain.runtime.runners.cluster.node_pool import NodePool
from posttrain.runtime.runners.cluster.scheduler import JobSpec, Scheduler


class PoolJobs:
    """Submits jobs to a pool, as many as it has steps that no job can take."""

    def __init__(self, pool: NodePool, scheduler: Scheduler, spec: JobSpec, max_nodes: int | None) -> None:
        self.pool = pool
        self.spec = spec
        self._scheduler = scheduler
        self._max_nodes = max_nodes
        self._lock = threading.Lock()
        # When this client submitted each of its jobs.
        self._submitted: dict[str, float] = {}

    def fill(self, snapshot: JobSnapshot, lock: int | None = None) -> int:
        """Submit a job if there are more offers than jobs without a step; the number of jobs submitted."""
        with self._lock:
            live = {job.id for job in snapshot.live(self.spec.name)}
            live |= {id for id, submitted in self._submitted.items() if submitted > snapshot.began}
            available = len(live - self.pool.busy_jobs())
            is_full = self._max_nodes is not None and len(live) >= self._max_nodes
            if is_full or available >= self.pool.open_offers():
                return 0
            self.spec.output.parent.mkdir(parents=True, exist_ok=True)
            self._submitted[self._scheduler.submit(self.spec, lock)] = time.monotonic()
            return 1

    def unstarted(self, snapshot: JobSnapshot | None) -> list[str]:
        """The jobs of this client that can still wait, if the pool has no more steps for them."""
        if self.pool.open_offers():
            return []
        running = {job.id for job in snapshot.jobs if job.phase != "pending"} if snapshot else set[str]()
        return [id for id in self._submitted if id not in running]
