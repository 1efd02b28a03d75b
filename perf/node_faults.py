"""The faults that `cluster_faults.py` injects into a training on two nodes (root only)."""

import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perf.fault_clusters import SlurmFaults, programs, rank_of, send
from perf.node_training import Training
from tests.runtime.resizable_tmpfs import LARGE_BYTES, resize, used_bytes


@dataclass(frozen=True)
class Fault:
    """A fault and what a person does after it."""

    title: str
    # Returns the pattern by which the output of the client names it; empty if the training continues.
    inject: Callable[[Training], str]
    engines: Sequence[str] = ("slurm", "ray")
    # After the run has failed: the client is started again. None: the run continues by itself.
    repair: Callable[[Training], None] | None = None
    # Whether the home is a file system of its own, which can become full.
    on_own_disk: bool = False


def kill_rank(training: Training) -> str:
    send(rank_of(programs(training.home)[1]), signal.SIGKILL)
    return r"process 1 of 2 was killed by signal 9.*on node"


def lose_node(training: Training, index: int = 1, *, back: bool = False) -> str:
    """The daemon and all processes of the job on a node end, and the daemon does not come back."""
    cluster = training.cluster
    program = programs(training.home)[index]
    node = cluster.node_of(program)
    for pid in (*cluster.daemon_processes(program), *cluster.node_processes(program)):
        send(pid, signal.SIGKILL)
    if back:
        assert isinstance(cluster, SlurmFaults), "a killed raylet comes back as another node"
        cluster.restore(node)
    return rf"node {node} is lost"


def lose_first_node(training: Training) -> str:
    return lose_node(training, 0)


def lose_node_with_return(training: Training) -> str:
    return lose_node(training, back=True)


def freeze_node(training: Training) -> str:
    """All that runs on the node, also the daemon of the engine, stops until the end of the run."""
    cluster = training.cluster
    program = programs(training.home)[1]
    node = cluster.node_of(program)
    for pid in (*cluster.daemon_processes(program), *cluster.node_processes(program)):
        training.frozen.append(pid)
        send(pid, signal.SIGSTOP)
    return rf"node {node} is lost"


def kill_raylet(training: Training) -> str:
    program = programs(training.home)[1]
    for pid in training.cluster.daemon_processes(program):
        send(pid, signal.SIGKILL)
    return rf"node {training.cluster.node_of(program)} is lost|process 1 of 2 was killed"


def cancel(training: Training) -> str:
    training.cluster.connected.cancel(training.job())
    return r"not by this run"


def preempt(training: Training) -> str:
    """A job of a partition of higher priority needs all nodes: Slurm sends SIGTERM, 20 s later SIGKILL."""
    urgent = ["sbatch", "--partition=urgent", "--exclusive", f"--nodes={training.cluster.node_count}"]
    subprocess.run([*urgent, "--output=/dev/null", "--wrap=sleep 5"], check=True, stdout=subprocess.DEVNULL)
    return r"received SIGTERM, not by this run|was preempted"


def fill_disk(training: Training) -> str:
    resize(training.home, used_bytes(training.home))
    return r"the disk is full|No space left on device"


def make_space(training: Training) -> None:
    resize(training.home, LARGE_BYTES)


def restart_controller(training: Training) -> str:
    """Training continues meanwhile; the client waits for the engine."""
    daemons = training.cluster.daemons
    send(daemons["slurmctld"].pid, signal.SIGKILL)
    daemons["slurmctld"].wait()
    time.sleep(5)
    training.cluster.start_daemon("slurmctld")
    return ""


def kill_client(training: Training) -> str:
    training.client.kill()
    training.client.wait()
    time.sleep(1)
    training.client = training.start_client()
    return ""


FAULTS = {
    "rank": Fault("a rank killed", kill_rank),
    "lost": Fault("a node lost for good", lose_node),
    "first": Fault("the first node lost for good", lose_first_node),
    "back": Fault("a node lost and back without its step", lose_node_with_return, ("slurm",)),
    "frozen": Fault("a node frozen by SIGSTOP", freeze_node),
    "raylet": Fault("a raylet killed", kill_raylet, ("ray",)),
    "cancel": Fault("cancelled by somebody else", cancel),
    "preempt": Fault("preempted by a partition of higher priority", preempt, ("slurm",)),
    "disk": Fault("the shared disk full, space made later", fill_disk, repair=make_space, on_own_disk=True),
    "controller": Fault("slurmctld killed and restarted", restart_controller, ("slurm",)),
    "client": Fault("the client killed, a new one", kill_client),
}
