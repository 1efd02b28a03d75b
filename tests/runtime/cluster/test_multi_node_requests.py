"""What a step on several nodes requests, and what a client knows of its nodes."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from posttrain.runtime.distributed import heartbeats
from posttrain.runtime.distributed.node_group import NodeGroup
from posttrain.runtime.distributed.peer_nodes import node_end
from posttrain.runtime.machine import Machine
from posttrain.runtime.preflight.machine_resources import unmet_requirements
from posttrain.runtime.runners.cluster import ray_node_group
from posttrain.runtime.runners.cluster.attempt_files import AttemptFiles
from posttrain.runtime.runners.cluster.job_request import describe_request, step_request, unmet_limit
from posttrain.runtime.runners.cluster.job_specs import JobSpecs
from posttrain.runtime.runners.cluster.node_monitor import AvoidedNodes, NodeMonitor
from posttrain.runtime.runners.cluster.ray_bridge import RayBridge
from posttrain.runtime.runners.cluster.ray_scheduler import RayScheduler
from posttrain.runtime.runners.cluster.scheduler import JobSpec
from posttrain.spec.place import RayPlace, SlurmPlace
from posttrain.spec.plan import Launch, Resources, SourceLocation, Step
from posttrain.spec.step_records import NodeBeat


def step(**values: Any) -> Step:
    return Step(
        id="sft",
        kind="train",
        entry="posttrain.runtime.methods.sft:run",
        params={},
        place=SourceLocation(file="recipe.yaml", line=1, column=1),
        key="ab" * 32,
        key_parts={},
        key_values={},
        launch=Launch(processes=16, strategy="zero2", nodes=2),
        **values,
    )


def place(**values: Any) -> SlurmPlace:
    return SlurmPlace.model_validate({"engine": "slurm", **values})


def test_a_job_requests_the_share_of_a_node() -> None:
    request = step_request(step(resources=Resources(cpus=5, gpus=16)), place(memory_gb=64.0))
    assert (request.nodes, request.gpus, request.cpus, request.memory_gb) == (2, 8, 3, 64.0)
    assert describe_request(request) == "3 cores, 64 GB, 8 GPUs, 2 nodes"
    estimated = step(estimate={"memory_gb": 2.0})
    assert step_request(estimated, place()).memory_gb == 16.0


def test_a_job_with_a_server_node_requests_the_most_that_a_node_needs() -> None:
    rollouts = {"mode": "server", "gpus": 8, "nodes": 1}
    launch = Launch(processes=8, strategy="ddp", nodes=2, rollouts=rollouts)
    served = step(resources=Resources(gpus=16)).model_copy(update={"launch": launch})
    request = step_request(served, place())
    assert (request.nodes, request.gpus) == (3, 8)
    few = launch.model_copy(update={"rollouts": {**rollouts, "gpus": 2}})
    served = step(resources=Resources(gpus=10)).model_copy(update={"launch": few})
    assert step_request(served, place()).gpus == 4


def test_limits_of_a_place_apply_to_each_node() -> None:
    placed = step(resources=Resources(gpus=16))
    assert unmet_limit(placed, place(gpus_per_node=8, max_nodes=2)) is None
    assert "a node has 4" in str(unmet_limit(placed, place(gpus_per_node=4)))
    assert "requires 2 nodes" in str(unmet_limit(placed, place(max_nodes=1)))


def test_a_step_on_several_nodes_has_its_own_job() -> None:
    assert JobSpecs(place(keep_alive_seconds=60.0)).pool_name(step()) is None


def test_one_machine_cannot_run_a_step_on_several_nodes() -> None:
    machine = Machine(cpus=64, memory_gb=512.0, gpus=tuple(str(n) for n in range(16)))
    (found,) = unmet_requirements([step(resources=Resources(gpus=16))], machine)
    assert "runs on 2 nodes" in found.cause
    assert "--on NAME" in found.advice


class SomeNodes:
    """An engine that can run jobs on some of its nodes."""

    def __init__(self, able: Sequence[str], *others: str) -> None:
        self._able = able
        self._all = [*able, *others]

    def nodes(self) -> Sequence[str]:
        return self._all

    def rejection(self, job: JobSpec) -> str | None:
        return None if len({*self._able} - {*job.excluded}) >= job.request.nodes else "too few"


def test_lost_nodes_are_avoided_while_others_suffice() -> None:
    """A job that is killed leaves all of its nodes silent, and the head of a cluster often runs no job."""
    avoided = AvoidedNodes()
    job = JobSpecs(place()).step_job(Path("/home/work/key"), step())

    def excluded(able: Sequence[str], *others: str) -> Sequence[str]:
        engine: Any = SomeNodes(able, *others)
        return avoided.exclude(job, engine).excluded

    assert not avoided
    assert excluded(["n1"]) == ()
    avoided.add(["n2"])
    assert avoided
    assert excluded(["n1", "n2", "n3"]) == ("n2",)
    assert excluded(["n1", "n2"]) == ()
    avoided.add(["n1"])
    assert excluded(["n1", "n2", "n3", "n4"]) == ("n2", "n1")
    assert excluded(["n1", "n2", "n3"], "head") == ()


def test_ray_rejects_a_job_without_enough_nodes_besides_the_excluded(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = [{"name": name, "resources": {"CPU": 4.0}} for name in ("n1", "n2", "n3")]
    listed.append({"name": "head", "resources": {}})
    scheduler = RayScheduler(RayPlace.model_validate({"engine": "ray", "address": "127.0.0.1:1"}))
    monkeypatch.setattr(scheduler, "_call", Mock(return_value=listed))
    job = JobSpecs(place()).step_job(Path("/home/work/key"), step())
    assert scheduler.rejection(replace(job, excluded=("n1",))) is None
    assert scheduler.rejection(replace(job, excluded=("n1", "n2"))) == (
        "2 nodes are required, but 1 have what the step requires"
    )


def test_a_client_notices_the_loss_of_the_first_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else would: node 0 is what judges the others."""
    now = 0.0
    monkeypatch.setattr(heartbeats.time, "monotonic", lambda: now)
    files = AttemptFiles(tmp_path, "0123456789abcdef")
    files.folder.mkdir(parents=True)
    monitor = NodeMonitor(files, 2)

    def beat(index: int, number: int) -> None:
        group = NodeGroup(index, 2, files.folder)
        group.beat(NodeBeat(node=f"n{index + 1}", beat=number))

    for second in range(1, 30):  # a job that waits in the queue is not lost
        now = float(second)
        assert monitor.loss() is None
    beat(0, 1)
    loss = None
    for second in range(1, 20):
        now = 30 + second
        beat(1, second)
        if (loss := monitor.loss()) is not None:
            break
    assert 11 <= now - 30 <= 14
    assert "node n1 is lost" in str(loss)
    assert loss is not None
    assert loss.retriable
    assert monitor.silent_nodes() == ["n1"]
    NodeGroup(0, 2, files.folder).end(node_end(None, 0))
    assert monitor.silent_nodes() == []


def test_ray_excludes_the_nodes_that_a_client_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A label selector needs their whole ids."""
    here: dict[str, Any] = {"NodeManagerAddress": "10.0.0.1", "Alive": True, "Resources": {}}
    listed = [{**here, "NodeID": id} for id in ("a" * 56, "b" * 56)]
    bridge = object.__new__(RayBridge)
    vars(bridge)["_ray"] = SimpleNamespace(nodes=lambda: listed)
    names = [node["name"] for node in bridge.answer({"call": "nodes"})]
    submit = Mock()
    monkeypatch.setattr(ray_node_group, "submit_group", submit)
    job = {"name": "x", "nodes": 2, "excluded": [names[1]]}
    bridge.answer({"call": "submit", "job": job})
    assert submit.call_args.args[3]["excluded"] == ["b" * 56]
