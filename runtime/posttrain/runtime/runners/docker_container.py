"""Configures the container of a step: its user, mounts, environment, network and limits."""

import getpass
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posttrain.runtime.environment_proxies import proxy_variables
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
_TMP = "/".join(("", "tmp"))  # inside the container, which has no other users


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
    the memory of the target machine."""
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
        # Only the working directory outlives the container. `exec`, because just-in-time compilers run
        # their programs from there.
        "read_only": True,
        "tmpfs": {_TMP: "rw,exec,nosuid,nodev"},
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "init": True,  # without an init, PID 1 ignores SIGTERM
        "pids_limit": _PIDS_LIMIT,
        "nano_cpus": min(step.resources.cpus, os.cpu_count() or 1) * 10**9,
        "device_requests": _device_requests(engine, step.resources.gpus, gpus),
        # The log of the step is a file in its folder. This log has only the output before that.
        "log_config": LogConfig(type="json-file", config={"max-size": "1m"}),
        **_memory_options(step.resources.memory_gb or machine_gb),
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


def _environment(work: Path, step: Step) -> dict[str, str]:
    """The environment of the container. Of the caller's variables only the proxies, with network access."""
    found = {
        **step_environment(work, step),
        # The caller is not a user of the image.
        "HOME": _TMP,
        "USER": _user_name(),
        "HF_HOME": str(work / "scratch" / "huggingface"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    if step.resources.network:
        found |= proxy_variables()
        if "HF_ENDPOINT" in os.environ:
            found["HF_ENDPOINT"] = os.environ["HF_ENDPOINT"]
    return found


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the uid has no name
        return "posttrain"


def _mounts(work: Path) -> list[Any]:
    """Mounts with the same paths inside and outside, because the files of the step contain paths."""
    from docker.types import Mount

    store = str(home_for(work).store.root)
    return [
        Mount(store, store, type="bind", read_only=True),
        Mount(str(work), str(work), type="bind"),
    ]


def _network_mode(engine: "DockerClient", required: Resources) -> str:
    if not required.network:
        return "none"
    # An engine can be configured without a bridge; then only the host network is left.
    return "bridge" if engine.networks.list(names=["bridge"]) else "host"


def _memory_options(gb: float | None) -> dict[str, Any]:
    """The memory limits. Shared memory counts toward the limit and gets at most half of it."""
    if gb is None:
        return {"shm_size": int(_SHM_GIB * _GIB)}
    limit = int(gb * _GIB)
    shared = min(limit // 2, int(_SHM_GIB * _GIB))
    return {"mem_limit": limit, "memswap_limit": limit, "shm_size": shared}


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
