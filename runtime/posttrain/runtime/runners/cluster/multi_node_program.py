"""The program of a job on each of its nodes.

    python -m posttrain.runtime.runners.cluster.multi_node_program WORK

Each node reports signs of life, checks its libraries and runs its share of the processes
(`posttrain.runtime.node_worker`). Node 0 claims the attempt, waits until the others have joined, and
records the end of the step: the others stop when it has ended.
"""

import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from posttrain.runtime.child_process import supervised_command
from posttrain.runtime.distributed.heartbeats import Heartbeat, HeartbeatWatch
from posttrain.runtime.distributed.node_group import NodeGroup
from posttrain.runtime.distributed.peer_nodes import RESUMES, node_end
from posttrain.runtime.errors import FAILED, STOPPED, StepError, failure_record
from posttrain.runtime.plan_params import read_step
from posttrain.runtime.process_environment import step_environment
from posttrain.runtime.process_tree import die_with_parent
from posttrain.runtime.runners.cluster.attempt_files import AttemptFiles, current_attempt
from posttrain.runtime.runners.cluster.node_program import (
    PARENT_VARIABLE,
    NodeProgram,
    check_stack,
    enter_home,
)
from posttrain.runtime.runners.process import ProcessHandle
from posttrain.runtime.store.document_files import write_document
from posttrain.spec.plan import Step
from posttrain.spec.step_records import ClusterAttempt

# Of the program that a Ray actor starts.
INDEX_VARIABLE, NODE_VARIABLE = "POSTTRAIN_CLUSTER_NODE_INDEX", "POSTTRAIN_CLUSTER_NODE"
_START_SECONDS = 120.0  # in which all nodes of a job start
_POLL_SECONDS = 0.05


class MultiNodeProgram(NodeProgram):
    """Runs this node's share of one step."""

    def __init__(self, index: int, node: str) -> None:
        super().__init__()
        for name in (INDEX_VARIABLE, NODE_VARIABLE):
            self._own_variables.pop(name, None)
        self._index, self._node = index, node

    def run(self, work: Path) -> None:
        """Run the current attempt, unless there is none or another job has it."""
        attempt = current_attempt(work)
        if attempt is None:
            return
        files = AttemptFiles(work, attempt.token)
        if not (files.claim(self._job, self._node) if self._index == 0 else self._is_claimed(files)):
            return
        secrets = _read_secrets(files) if attempt.secrets else {}
        try:
            step = read_step(work / "record" / "step.json")
        except StepError as error:
            if self._index == 0:
                write_document(work / "failure.json", failure_record(error))
                files.end(FAILED, terminated=self._terminated)
            return
        launch = step.launch
        group = NodeGroup(self._index, launch.all_nodes, files.folder, launch.server_nodes)
        group.reserve_end()
        heartbeat = Heartbeat(group, self._node)
        heartbeat.start()
        try:
            self._run_share(work, step, attempt, files, group, secrets)
        finally:
            heartbeat.stop()

    def _is_claimed(self, files: AttemptFiles) -> bool:
        """Wait until node 0 of this job has claimed the attempt."""
        deadline = time.monotonic() + _START_SECONDS
        while files.folder.is_dir() and time.monotonic() < deadline:
            claim = files.claimed_by()
            if claim is not None:
                return claim.job == self._job
            time.sleep(_POLL_SECONDS)
        return False

    def _run_share(
        self,
        work: Path,
        step: Step,
        attempt: ClusterAttempt,
        files: AttemptFiles,
        group: NodeGroup,
        secrets: Mapping[str, str],
    ) -> None:
        status: int | None = FAILED
        error: StepError | None = None
        try:
            check_stack(step, attempt.release)
            if group.index == 0:
                self._await_others(group, files, attempt)
            if self._is_void(attempt, files):  # it may have been frozen: another attempt has the folders
                return
            if self._terminated:
                status = STOPPED
            else:
                os.environ.clear()
                os.environ.update({**self._own_variables, **attempt.variables})
                handle = self._start(work, step, group, secrets, files)
                status = self._follow(handle, attempt, files)
        except StepError as problem:
            error = problem
        if status is None:
            return
        if group.index == 0:
            if error is not None:
                write_document(work / "failure.json", failure_record(error))
            files.end(status, terminated=self._terminated)
        elif group.ended(group.index) is None:
            if error is None and status != STOPPED:
                how = f"was killed by signal {-status}" if status < 0 else f"exited with status {status}"
                error = StepError(f"the worker of the node {how}", RESUMES, retriable=status < 0)
            group.end(node_end(error, status))

    def _await_others(self, group: NodeGroup, files: AttemptFiles, attempt: ClusterAttempt) -> None:
        """Wait until every node has joined, then remove the file of the secrets, which all have read."""
        watch = HeartbeatWatch(group, group.others)
        deadline = time.monotonic() + _START_SECONDS
        while missing := [index for index in group.others if not watch.has_joined(index)]:
            watch.update()
            if self._terminated or self._is_void(attempt, files):
                return
            if time.monotonic() > deadline:
                names = ", ".join(watch.name(index) for index in missing)
                text = f"node {names} of the job did not start the step within {_START_SECONDS:g} s"
                raise StepError(text, "see the output of the job; " + RESUMES, retriable=True)
            time.sleep(_POLL_SECONDS)
        files.remove_secrets()

    def _start(
        self, work: Path, step: Step, group: NodeGroup, secrets: Mapping[str, str], files: AttemptFiles
    ) -> ProcessHandle:
        """Start the worker of this node."""
        shape = (group.index, group.count, group.servers)
        arguments = [str(work), str(group.folder), *map(str, shape)]
        if group.index == 0:
            for name in ("receipt.json", "failure.json"):
                (work / name).unlink(missing_ok=True)
        log_name = "log" if group.index == 0 else f"node-{group.index}.log"
        with (work / "record" / log_name).open("ab") as log:
            process = subprocess.Popen(
                supervised_command("posttrain.runtime.node_worker", *arguments, end_signal=signal.SIGKILL),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=step_environment(step, work, os.environ) | dict(secrets),
                start_new_session=True,
            )
        return ProcessHandle(process=process, pid=process.pid)

    def _is_void(self, attempt: ClusterAttempt, files: AttemptFiles) -> bool:
        """Another node than the first also stops when the first has ended."""
        return super()._is_void(attempt, files) or (self._index > 0 and files.ended() is not None)


def _read_secrets(files: AttemptFiles) -> dict[str, str]:
    return json.loads((files.folder / "secrets.json").read_text(encoding="utf-8"))


def main(work: Path, getenv: Callable[[str], str | None] = os.environ.get) -> None:
    parent = getenv(PARENT_VARIABLE)
    if parent is not None:
        die_with_parent(int(parent), signal.SIGKILL)
    enter_home(work)
    index = getenv(INDEX_VARIABLE) or getenv("SLURM_NODEID") or "0"
    node = getenv(NODE_VARIABLE) or getenv("SLURMD_NODENAME") or platform.node()
    program = MultiNodeProgram(int(index), node)
    signal.signal(signal.SIGTERM, program.terminate)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        program.run(work)
    finally:
        program.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
