"""Clusters of three nodes on this machine whose nodes can be killed, frozen and started again (root only).

The scripts are those of CI, in folders and on ports of their own. Three nodes, so that a job on two nodes has
a spare one.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.runtime.cluster.engines import TestCluster, ray_cluster, slurm_cluster

ROOT = Path(__file__).parent.parent
_NODES = 3
_PROGRAM = "multi_node_program"


class FaultCluster(ABC):
    """A cluster with control over its daemons."""

    node_count = _NODES

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = dict(os.environ)
        self.cluster: TestCluster | None = None

    def start(self, name: str, script: str, *arguments: str, **environment: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.daemons[name] = subprocess.Popen(
                [str(ROOT / ".ci" / script), *arguments],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**self.environment, **environment},
                start_new_session=True,
            )

    def await_nodes(self) -> None:
        """Wait until all nodes can run jobs."""
        deadline = time.monotonic() + 400
        while self.cluster is None or len(self.cluster.scheduler.nodes()) < self.node_count:
            assert time.monotonic() < deadline, "the nodes did not start"
            time.sleep(0.5)
            self.cluster = self.cluster or self.connect()

    @property
    def connected(self) -> TestCluster:
        assert self.cluster is not None, "it was opened"
        return self.cluster

    @abstractmethod
    def connect(self) -> TestCluster | None:
        """The cluster, as soon as it answers."""

    def stop(self) -> None:
        for daemon in self.daemons.values():
            for pid in (daemon.pid, *descendants(daemon.pid)):
                send(pid, signal.SIGKILL)
            daemon.wait()


class SlurmFaults(FaultCluster):
    """Three slurmd; a node is named n1, n2 or n3."""

    def open(self) -> None:
        self.environment |= {"SLURM_NODES": str(_NODES), "SLURM_PORT": "19817"}
        subprocess.run(
            [str(ROOT / ".ci/slurm-up"), str(self.folder), "configure"], check=True, env=self.environment
        )
        os.environ["POSTTRAIN_TEST_SLURM"] = str(self.folder / "slurm.conf")
        for name in ("munged", "slurmctld", *(f"n{n + 1}" for n in range(_NODES))):
            self.start_daemon(name)
            time.sleep(0.5)
        self.await_nodes()

    def connect(self) -> TestCluster | None:
        return slurm_cluster()

    def start_daemon(self, name: str) -> None:
        self.start(name, "slurm-up", str(self.folder), name)

    def node_of(self, program: int) -> str:
        return variable(program, "SLURMD_NODENAME")

    def node_processes(self, program: int) -> list[int]:
        """The processes of the job on the node of a program: its supervisors (slurmstepd), and all below.
        Those of a batch script on the same node are among them."""
        steps = {parent(program)} | batch_supervisors(self.node_of(program), self.folder)
        return [*steps, *(child for step in steps for child in descendants(step))]

    def daemon_processes(self, program: int) -> list[int]:
        pid = self.daemons[self.node_of(program)].pid
        return [pid]

    def restore(self, node: str) -> None:
        self.daemons[node].wait()
        self.start_daemon(node)

    def repair(self) -> None:
        """Start the killed daemons again, and wait for all nodes."""
        for name, daemon in list(self.daemons.items()):
            if daemon.poll() is not None:
                self.start_daemon(name)
        self.await_nodes()


class RayFaults(FaultCluster):
    """A head without cores, which is never killed, and three raylets."""

    node_count = _NODES + 1

    def open(self) -> None:
        ports = {"RAY_PORT": "19399", "RAY": str(Path(sys.executable).parent / "ray")}
        self.environment |= ports
        os.environ |= {
            "POSTTRAIN_TEST_RAY": "127.0.0.1:19399",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(self.folder / "token"),
        }
        self.start("head", "ray-up", str(self.folder), "head", RAY_WORKER_PORTS="33000", RAY_CPUS="0")
        self._await_runtime("head")
        for n in range(1, self.node_count):
            self.start_daemon(f"r{n}")
        self.await_nodes()

    def connect(self) -> TestCluster | None:
        return ray_cluster()

    def start_daemon(self, name: str) -> None:
        port = 33000 + 2000 * int(name[1:])
        (self.folder / f"{name}.log").unlink(missing_ok=True)
        self.start(name, "ray-up", str(self.folder), "second", RAY_WORKER_PORTS=str(port))
        self._await_runtime(name)  # two that start at a time select the same ports

    def _await_runtime(self, name: str) -> None:
        deadline = time.monotonic() + 200
        while "Ray runtime started" not in (self.folder / f"{name}.log").read_text():
            assert time.monotonic() < deadline, f"{name} did not start"
            time.sleep(0.5)

    def node_of(self, program: int) -> str:
        return variable(program, "POSTTRAIN_CLUSTER_NODE")

    def node_processes(self, program: int) -> list[int]:
        actor = parent(program)
        return [actor, *descendants(actor)]

    def daemon_processes(self, program: int) -> list[int]:
        """The raylet: the parent of the actor."""
        return [parent(parent(program))]

    def repair(self) -> None:
        """The end of a raylet ends its `ray start`; a new node takes its place."""
        time.sleep(15)  # until Ray counts the lost node no more, and a frozen raylet knows that it is lost
        for name, daemon in list(self.daemons.items()):
            if daemon.poll() is not None and name != "head":
                self.start_daemon(name)
        self.await_nodes()


@contextmanager
def started(kind: type[SlurmFaults] | type[RayFaults], folder: Path) -> Generator[SlurmFaults | RayFaults]:
    folder.mkdir(parents=True)
    cluster = kind(folder)
    try:
        cluster.open()
        yield cluster
    finally:
        if cluster.cluster is not None:
            cluster.cluster.scheduler.close()
        cluster.stop()


def programs(home: Path) -> list[int]:
    """The programs on the nodes of the job of a home, in the order of the nodes."""
    index: dict[int, str] = {}
    for pid in processes():
        command = command_line(pid)
        if _PROGRAM in command and str(home) in command and not command.startswith("srun"):
            index[pid] = variable(pid, "POSTTRAIN_CLUSTER_NODE_INDEX") or variable(pid, "SLURM_NODEID")
    return sorted((pid for pid in index if index[pid]), key=lambda pid: index[pid])


def batch_supervisors(node: str, folder: Path) -> set[int]:
    """The slurmstepd of the batch script, if it runs on this node of the cluster: the parent of its srun."""
    found = [pid for pid in processes() if "srun" in command_line(pid) and _PROGRAM in command_line(pid)]
    found = [pid for pid in found if str(folder.parent) in command_line(pid)]
    return {parent(pid) for pid in found if variable(pid, "SLURMD_NODENAME") == node and parent(pid) > 1}


def rank_of(program: int) -> int:
    """The last descendant of a program: program, supervisor, worker, rank."""
    return max(descendants(program), key=lambda pid: len(ancestors(pid)))


def processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def command_line(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def variable(pid: int, name: str) -> str:
    """A variable of the environment with which a process started."""
    with contextlib.suppress(OSError):
        for item in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if item.startswith(name.encode() + b"="):
                return item.decode(errors="replace").partition("=")[2]
    return ""


def parent(pid: int) -> int:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    return 0


def ancestors(pid: int) -> list[int]:
    found: list[int] = []
    while (pid := parent(pid)) > 1:
        found.append(pid)
    return found


def descendants(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for pid in processes():
        children.setdefault(parent(pid), []).append(pid)
    found = list(children.get(root, ()))
    for pid in found:
        found += children.get(pid, ())
    return found


def send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
