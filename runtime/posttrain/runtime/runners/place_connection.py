"""Connects a run to the cluster of its place. A run on this machine imports nothing of clusters."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from posttrain.runtime.runners.dispatch import RunnerDispatch
from posttrain.spec.place import Place

if TYPE_CHECKING:
    from posttrain.runtime.runners.cluster.scheduler import Scheduler


@contextmanager
def connect_place(place: Place | None) -> "Generator[Scheduler | None]":
    """The connection to the engine of a place, for the preflight and the steps; None on this machine."""
    if place is None:
        yield None
        return
    from posttrain.runtime.runners.cluster.engines import create_scheduler

    scheduler = create_scheduler(place)
    scheduler.open()
    try:
        yield scheduler
    finally:
        scheduler.close()


def create_dispatch(place: Place | None, scheduler: "Scheduler | None") -> RunnerDispatch:
    """The runners of a run at a place, or on this machine."""
    if place is None or scheduler is None:
        return RunnerDispatch()
    from posttrain.runtime.runners.cluster.cluster_runner import ClusterRunner

    return RunnerDispatch(cluster=ClusterRunner(place, scheduler))
