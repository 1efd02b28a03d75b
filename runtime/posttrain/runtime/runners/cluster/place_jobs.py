"""Asks the engine of a place which steps have a job, for `recipe gc --on NAME`."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from posttrain.runtime.runners.cluster.attempt_files import has_live_job
from posttrain.runtime.runners.cluster.engines import create_scheduler
from posttrain.spec.place import Place


def job_finder(place: Place) -> Callable[[Path], bool]:
    """A function that returns whether a working directory has a job. Raises `StepError` if the engine does
    not answer."""
    scheduler = create_scheduler(place)
    scheduler.open()
    try:
        return partial(has_live_job, jobs=scheduler.jobs())
    finally:
        scheduler.close()
