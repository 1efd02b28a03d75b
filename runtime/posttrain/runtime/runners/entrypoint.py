"""What a step's container runs: `python -m posttrain.runtime.runners.entrypoint WORK`.

The worker with its output in the step's log, which lies on the mount and stays when the container
is gone. There is no parent to die with: a container outlives its client.
"""

import os
import sys
from pathlib import Path

from posttrain.runtime import atomic_io, worker

# The second version of control groups, and the first.
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
    """How many processes of this container the kernel has ended for want of memory."""
    for path in _OOM_COUNTERS:
        try:
            lines = path.read_text().splitlines()
        except OSError:
            continue
        return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))
    return 0


if __name__ == "__main__":
    worker.exit_process(main(Path(sys.argv[1])))
