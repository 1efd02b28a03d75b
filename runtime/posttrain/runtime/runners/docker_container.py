"""What a step's container is made of: who runs in it, what it sees, and how much it may take."""

import getpass
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posttrain.runtime.runners.docker_engine import translate_engine_errors
from posttrain.runtime.runners.process import step_environment
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
_TMP = "/".join(("", "tmp"))  # inside the container, where nobody else writes


def home_for(work: Path) -> Home:
    return Home(work.parent.parent)


def container_name(work: Path) -> str:
    """One name for one step of one home: a second client finds the container, and cannot make another."""
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
    """The arguments under which docker-py creates the container. It may take as much memory as the recipe
    gives the step, or at most what the recipe's machine has."""
    from docker.types import LogConfig

    return {
        "image": image,
        "name": container_name(work),
        "entrypoint": ["python", "-m", "posttrain.runtime.runners.entrypoint"],
        "command": [str(work)],
        "working_dir": str(work),
        "user": f"{os.getuid()}:{os.getgid()}",
        "environment": {**_environment(work, step), **secrets},
        "labels": container_labels(work, step, run),
        "network_mode": _network_mode(engine, step.resources),
        "mounts": _mounts(work),
        # What is written outside the step's own folder is gone with the container. Programs compiled
        # as they are needed must be able to run from there.
        "read_only": True,
        "tmpfs": {_TMP: "rw,exec,nosuid,nodev"},
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "init": True,  # without it a process that is number 1 ignores SIGTERM
        "pids_limit": _PIDS_LIMIT,
        "nano_cpus": min(step.resources.cpus, os.cpu_count() or 1) * 10**9,
        "device_requests": _device_requests(engine, step.resources.gpus, gpus),
        # The step's log is a file in its folder. This one holds what comes before that.
        "log_config": LogConfig(type="json-file", config={"max-size": "1m"}),
        **_memory_options(step.resources.memory_gb or machine_gb),
    }


def container_labels(work: Path, step: Step, run: str) -> dict[str, str]:
    return {
        "posttrain.home": str(home_for(work).root),
        "posttrain.key": work.name,
        "posttrain.run": run,
        "posttrain.step": step.id,
        # Nobody but its own run takes the product of a step that is not pinned.
        "posttrain.shared": "yes" if step.pinned else "no",
    }


def _environment(work: Path, step: Step) -> dict[str, str]:
    """Nothing of the caller's, except how to reach the network for a step that may."""
    found = {
        **step_environment(work, step),
        # The caller has no entry among the users of the image.
        "HOME": _TMP,
        "USER": _user_name(),
        "HF_HOME": str(work / "scratch" / "huggingface"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    if step.resources.network:
        proxies = ("HF_ENDPOINT", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY")
        found |= {name: os.environ[name] for name in proxies if name in os.environ}
    return found


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no name for this number
        return "posttrain"


def _mounts(work: Path) -> list[Any]:
    """The same paths inside as outside: the step's description names files by them."""
    from docker.types import Mount

    store = str(home_for(work).store.root)
    return [
        Mount(store, store, type="bind", read_only=True),
        Mount(str(work), str(work), type="bind"),
    ]


def _network_mode(engine: "DockerClient", required: Resources) -> str:
    if not required.network:
        return "none"
    # An engine can be set up without a bridge; the host's own network is then the only one.
    return "bridge" if engine.networks.list(names=["bridge"]) else "host"


def _memory_options(gb: float | None) -> dict[str, Any]:
    """Limits. Shared memory counts as memory: no more than half of it may go there."""
    if gb is None:
        return {"shm_size": int(_SHM_GIB * _GIB)}
    limit = int(gb * _GIB)
    shared = min(limit // 2, int(_SHM_GIB * _GIB))
    return {"mem_limit": limit, "memswap_limit": limit, "shm_size": shared}


def _device_requests(engine: "DockerClient", count: int, gpus: tuple[str, ...]) -> "list[DeviceRequest]":
    """By CDI where the engine says that it has found devices so; else by number or UUID."""
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
    """The memory that a container may take, where it has a limit."""
    return (container.attrs["HostConfig"].get("Memory") or 0) / _GIB or None


def start_container(engine: "DockerClient", options: Mapping[str, Any]) -> None:
    """Create the container with these options, and start it."""
    from docker.errors import APIError

    try:
        container = engine.containers.create(**options)
    except APIError as error:
        if error.status_code != 409:
            raise
        return  # it is there already: another client was quicker, and it is watched like our own
    try:
        container.start()
    except BaseException:
        container.remove(force=True)
        raise


def remove_stale_containers(engine: "DockerClient", home: Home, expected: set[str]) -> None:
    """Remove this home's containers that no client watches and none will take: those that have ended,
    and those whose product only a run that is gone could have used."""
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
