"""The engine of each place."""

from posttrain.runtime.runners.cluster.scheduler import Scheduler
from posttrain.spec.place import Place, SlurmPlace


def create_scheduler(place: Place) -> Scheduler:
    if isinstance(place, SlurmPlace):
        from posttrain.runtime.runners.cluster.slurm_scheduler import SlurmScheduler

        return SlurmScheduler(place)
    from posttrain.runtime.runners.cluster.ray_scheduler import RayScheduler

    return RayScheduler(place)
