"""The entry point of a container: `python -m posttrain.runtime.runners.entrypoint WORK`.

It runs the worker with its output in the log of the step, which is on a mount and outlives the container.
Unlike a local worker, a container does not die with its client.
"""

import os
import sys
from pathlib import Path

from posttrain.runtime import atomic_io, worker

# The counters of cgroup v2 and of cgroup v1.
_OOM_COUNTERS = (Path("/sys/fs/cgroup/memory.events"), Path("/sys/fs/cgroup/memory/memory.oom_control"))


def main(work: Path) -> int:
    with (work / "record" / "log").open("ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    status = worker.main(work)
    if status and count_oom_kills():
        atomic_io.write_json(work / "oom.json", {"kills": count_oom_kills()})
    return status


def count_oom_kills() -> int:
    """The number of processes in this container that the kernel's OOM killer has killed."""
    for path in _OOM_COUNTERS:
        try:
            lines = path.read_text().splitlines()
        except OSError:
            continue
        return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))
    return 0


if __name__ == "__main__":
    worker.exit_process(main(Path(sys.argv[1])))
