"""Configures the container of a step: its user, mounts, environment, network and limits."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posttrain.runtime.machine import total_memory_gb
from posttrain.runtime.process_environment import CONTAINER_TMP, step_environment
from posttrain.runtime.runners.docker_engine import translate_engine_errors
from posttrain.runtime.store.file_locks import try_lock
from posttrain.runtime.store.home import Home
from posttrain.spec.keys import digest
from posttrain.spec.plan import Resources, Step

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container
    from docker.types import DeviceRequest

_GIB = 1 << 30
_PIDS_LIMIT = 4096
_SHM_GIB = 8.0
_DEFAULT_SHARE = 0.9


def home_for(work: Path) -> Home:
    return Home(work.parent.parent)


def container_name(work: Path) -> str:
    """A unique name for a step of a home: a second client finds the container and cannot create another."""
    return f"posttrain-{digest([str(home_for(work).root), work.name])[:32]}"


def container_options(
    engine: "DockerClient",
    image: str,
    work: Path,
    step: Step,
    secrets: Mapping[str, str],
    run: str,
    gpus: tuple[str, ...] = (),
    machine_gb: float | None = None,
) -> dict[str, Any]:
    """The docker-py arguments of the container. The memory limit is that of the step in the recipe, or else
    the memory of the target machine, or else most of the memory of this machine."""
    from docker.types import LogConfig

    return {
        "image": image,
        "name": container_name(work),
        "entrypoint": ["python", "-m", "posttrain.runtime.runners.entrypoint"],
        "command": [str(work)],
        "working_dir": str(work),
        "user": f"{os.getuid()}:{os.getgid()}",
        "environment": {**step_environment(step, work, os.environ, container=True), **secrets},
        "labels": container_labels(work, step, run),
        "network_mode": _network_mode(engine, step.resources),
        "mounts": _mounts(work),
        # Only the working directory outlives the container.
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "init": True,  # without an init, PID 1 ignores SIGTERM
        "pids_limit": _PIDS_LIMIT,
        "nano_cpus": min(step.resources.cpus, os.cpu_count() or 1) * 10**9,
        "device_requests": _device_requests(engine, step.resources.gpus, gpus),
        # The log of the step is a file in its folder. This log has only the output before that.
        "log_config": LogConfig(type="json-file", config={"max-size": "1m"}),
        **memory_options(step.resources.memory_gb or machine_gb or _default_memory_gb(engine)),
    }


def container_labels(work: Path, step: Step, run: str) -> dict[str, str]:
    return {
        "posttrain.home": str(home_for(work).root),
        "posttrain.key": work.name,
        "posttrain.run": run,
        "posttrain.step": step.id,
        # Only the run itself can use the product of a step that is not pinned.
        "posttrain.shared": "yes" if step.pinned else "no",
    }


def _mounts(work: Path) -> list[Any]:
    """Mounts with the same paths inside and outside, because the files of the step contain paths."""
    from docker.types import Mount

    store = str(home_for(work).store.root)
    rows = home_for(work).row_cache
    rows.mkdir(exist_ok=True)
    return [
        Mount(store, store, type="bind", read_only=True),
        Mount(str(rows), str(rows), type="bind"),
        Mount(str(work), str(work), type="bind"),
    ]


def _network_mode(engine: "DockerClient", required: Resources) -> str:
    if not required.network:
        return "none"
    # An engine can be configured without a bridge; then only the host network is left.
    return "bridge" if engine.networks.list(names=["bridge"]) else "host"


def memory_options(gb: float) -> dict[str, Any]:
    """The limits of the memory, of /dev/shm and of /tmp. The files in both count toward the memory."""
    limit = int(gb * _GIB)
    shared = min(limit // 2, int(_SHM_GIB * _GIB))
    return {
        "mem_limit": limit,
        "memswap_limit": limit,
        "shm_size": shared,
        # `exec`, because just-in-time compilers run their programs from there.
        "tmpfs": {CONTAINER_TMP: f"rw,exec,nosuid,nodev,size={limit // 4}"},
    }


def _default_memory_gb(engine: "DockerClient") -> float:
    """The limit of a step whose memory the recipe does not declare: most of the memory of the machine. A step
    that needs more fails alone, and the client and the other programs of the machine continue."""
    total = total_memory_gb()
    engine_total = engine.info().get("MemTotal") or 0  # less than the machine if the engine runs in a VM
    available = min(total, engine_total / _GIB) if engine_total else total
    return round(_DEFAULT_SHARE * available, 1)


def _device_requests(engine: "DockerClient", count: int, gpus: tuple[str, ...]) -> "list[DeviceRequest]":
    """GPU requests: by CDI name when the engine has discovered CDI devices, else by index or UUID."""
    from docker.types import DeviceRequest

    if not count:
        return []
    chosen = list(gpus)
    devices = [device["ID"] for device in engine.info().get("DiscoveredDevices") or ()]
    named = [id for id in devices if id.startswith("nvidia.com/gpu=") and not id.endswith("=all")]
    if named:
        device_ids = [f"nvidia.com/gpu={id}" for id in chosen] or sorted(named)[:count]
        return [DeviceRequest(driver="cdi", device_ids=device_ids)]
    if chosen:
        return [DeviceRequest(capabilities=[["gpu"]], device_ids=chosen)]
    return [DeviceRequest(capabilities=[["gpu"]], count=count)]


def memory_limit_gb(container: "Container") -> float | None:
    """The memory limit of a container in GB; None without a limit."""
    return (container.attrs["HostConfig"].get("Memory") or 0) / _GIB or None


def start_container(engine: "DockerClient", options: Mapping[str, Any]) -> None:
    """Create a container with these options, and start it."""
    from docker.errors import APIError

    try:
        container = engine.containers.create(**options)
    except APIError as error:
        if error.status_code != 409:
            raise
        return  # it exists: another client was faster, and this client polls the same container
    try:
        container.start()
    except BaseException:
        container.remove(force=True)
        raise


def remove_stale_containers(engine: "DockerClient", home: Home, expected: set[str]) -> None:
    """Remove the unwatched containers of this home that have exited, or whose product is private to an
    earlier run."""
    label = f"posttrain.home={home.root}"
    with translate_engine_errors():
        for container in engine.containers.list(all=True, ignore_removed=True, filters={"label": label}):
            lock = try_lock(home.step_lock(container.labels["posttrain.key"]))
            if lock is None:
                continue
            stale = container.status == "exited" or container.labels["posttrain.shared"] == "no"
            if stale and container.name not in expected:
                container.remove(force=True)
            lock.release()
