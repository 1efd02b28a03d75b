"""Writes the batch script of a job. `recipe plan --on NAME --format sbatch` prints the same text."""

import math
import shlex
from collections.abc import Iterator, Sequence

from posttrain.runtime.runners.cluster.scheduler import JobSpec
from posttrain.spec.place import SlurmPlace

# A step has this long to save a checkpoint before the time limit of its job.
_WARNING_SECONDS = 120


def batch_script(job: JobSpec, place: SlurmPlace) -> str:
    """The script: the options of sbatch, the lines of the place, and the command."""
    lines = ["#!/bin/bash", *(f"#SBATCH {option}" for option in _options(job, place))]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in sorted(place.environment.items())]
    if job.image is not None and place.container is not None and place.container.runtime == "apptainer":
        # With --containall, the container gets no other variable.
        lines.append('export APPTAINERENV_POSTTRAIN_CLUSTER_JOB="$SLURM_JOB_ID"')
    lines += place.setup
    # `exec`: a signal to the batch script reaches the command.
    lines.append(f"exec {shlex.join(_command(job, place))}")
    return "\n".join(lines) + "\n"


def _options(job: JobSpec, place: SlurmPlace) -> Iterator[str]:
    request = job.request
    yield f"--job-name={job.name}"
    for name in ("partition", "account", "qos", "constraint"):
        if (value := getattr(place, name)) is not None:
            yield f"--{name}={shlex.quote(value)}"
    if place.time_limit is not None:
        yield f"--time={place.time_limit}"
        yield f"--signal=B:TERM@{_WARNING_SECONDS}"
    yield f"--nodes={request.nodes}"
    yield f"--ntasks-per-node=1 --cpus-per-task={request.cpus}"
    if request.memory_gb is not None:
        yield f"--mem={math.ceil(request.memory_gb * 1024)}M"
    if request.gpus:
        yield f"--gres=gpu:{place.gpu_type + ':' if place.gpu_type else ''}{request.gpus}"
    if job.node:
        yield f"--nodelist={job.node}"
    # Slurm starts a job again minutes after a failure: the client does so at once, from a checkpoint.
    yield "--no-requeue"
    yield f"--output={shlex.quote(str(job.output))}"
    yield from place.options


def _command(job: JobSpec, place: SlurmPlace) -> list[str]:
    if job.image is None:
        return list(job.command)
    assert place.container is not None, "the preflight requires it"
    read_only = [*job.read_only, *place.container.mounts]
    if place.container.runtime == "pyxis":
        return [*_pyxis_options(job.image, job.writable, read_only), *job.command]
    return [*_apptainer_options(job.image, job.writable, read_only, job.request.gpus), *job.command]


def _pyxis_options(image: str, writable: Sequence[str], read_only: Sequence[str]) -> list[str]:
    mounts = [f"{path}:{path}" for path in writable] + [f"{path}:{path}:ro" for path in read_only]
    return [
        "srun",
        f"--container-image={_enroot_name(image)}",
        f"--container-mounts={','.join(mounts)}",
        "--no-container-mount-home",
        "--no-container-remap-root",
        "--kill-on-bad-exit=1",
    ]


def _enroot_name(image: str) -> str:
    """An image as pyxis names it: `#` is after the registry, and pyxis adds docker://."""
    registry, slash, rest = image.partition("/")
    is_registry = bool(slash) and ("." in registry or ":" in registry or registry == "localhost")
    return f"{registry}#{rest}" if is_registry else image


def _apptainer_options(image: str, writable: Sequence[str], read_only: Sequence[str], gpus: int) -> list[str]:
    binds = [f"{path}:{path}" for path in writable] + [f"{path}:{path}:ro" for path in read_only]
    flags = ["--containall", "--no-home", *(["--nv"] if gpus else [])]
    return ["apptainer", "exec", *flags, *(f"--bind={bind}" for bind in binds), f"docker://{image}"]
