"""Writes the batch script of a job. `recipe plan --on NAME --format sbatch` prints the same text."""

import math
import re
import shlex
from collections.abc import Iterator, Sequence

from posttrain.runtime.runners.cluster.job_request import JobRequest
from posttrain.runtime.runners.cluster.scheduler import JobSpec
from posttrain.spec.place import SlurmPlace

# A step has this long to save a checkpoint before the time limit of its job. Slurm sends the signal up to a
# minute earlier: with a limit of a few minutes it would come before the step did anything.
_WARNING_SECONDS = 120
_LEAST_LIMIT_SECONDS = 300
_PLAIN = re.compile(r"[A-Za-z0-9@+=:,./_-]+")
# The time from the end of the program on one node until srun ends those on the others.
_WAIT_SECONDS = 60
# With --containall, a container does not see which node it is on.
_NODE_OF_CONTAINER = (
    "bash",
    "-c",
    (
        'export APPTAINERENV_POSTTRAIN_CLUSTER_NODE_INDEX="$SLURM_NODEID"'
        ' APPTAINERENV_POSTTRAIN_CLUSTER_NODE="$SLURMD_NODENAME"; exec "$@"'
    ),
    "node",
)


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
            yield f"--{name}={_quote(value)}"
    if place.time_limit is not None:
        yield f"--time={place.time_limit}"
        if not 0 < limit_seconds(place.time_limit) < _LEAST_LIMIT_SECONDS:
            # With several nodes, to the programs: srun would end the job.
            yield f"--signal={'B:' if request.nodes == 1 else ''}TERM@{_WARNING_SECONDS}"
    yield f"--nodes={request.nodes}"
    yield f"--ntasks-per-node=1 --cpus-per-task={request.cpus}"
    if request.memory_gb is not None:
        yield f"--mem={math.ceil(request.memory_gb * 1024)}M"
    if request.gpus:
        yield f"--gres=gpu:{place.gpu_type + ':' if place.gpu_type else ''}{request.gpus}"
    if job.node:
        yield f"--nodelist={job.node}"
    if job.excluded:
        yield f"--exclude={','.join(job.excluded)}"
    # Slurm starts a job again minutes after a failure: the client does so at once, from a checkpoint.
    yield "--no-requeue"
    # Slurm replaces %j and the like in the name of a file.
    yield f"--output={_quote(str(job.output).replace('%', '%%'))}"
    for option in place.options:
        name, equals, value = option.partition("=")
        yield f"{name}={_quote(value)}" if equals else option


def limit_seconds(limit: str) -> int:
    """The seconds of a time limit as sbatch reads it; 0 is no limit."""
    days, dash, rest = limit.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    if dash:  # DAYS-HOURS[:MINUTES[:SECONDS]]
        hours, minutes, seconds = (*parts, 0, 0)[:3]
    elif len(parts) == 3:
        hours, minutes, seconds = parts
    else:  # MINUTES[:SECONDS]
        hours, minutes, seconds = 0, *(*parts, 0)[:2]
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


def _quote(value: str) -> str:
    """A value in a line that sbatch reads. Its quotes are not those of the shell."""
    if _PLAIN.fullmatch(value) or (value[:1] in "'\"" and value[-1:] == value[:1] and len(value) > 1):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _command(job: JobSpec, place: SlurmPlace) -> list[str]:
    return [*_launcher(job.request), *_step_command(job, place)]


def _launcher(request: JobRequest) -> list[str]:
    """Runs the command once on each node. If one ends, the program of node 0 ends the others: srun waits."""
    if request.nodes == 1:
        return []
    each = ["--ntasks-per-node=1", f"--cpus-per-task={request.cpus}"]
    return ["srun", f"--nodes={request.nodes}", *each, "--kill-on-bad-exit=0", f"--wait={_WAIT_SECONDS}"]


def _step_command(job: JobSpec, place: SlurmPlace) -> list[str]:
    if job.image is None:
        return list(job.command)
    assert place.container is not None, "the preflight requires it"
    read_only = [*job.read_only, *place.container.mounts]
    if place.container.runtime == "pyxis":
        options = _pyxis_options(job.image, job.writable, read_only)
        if job.request.nodes > 1:
            return [*options, *job.command]
        return ["srun", *options, "--kill-on-bad-exit=1", *job.command]
    container = [*_apptainer_options(job.image, job.writable, read_only, job.request.gpus), *job.command]
    return [*_NODE_OF_CONTAINER, *container] if job.request.nodes > 1 else container


def _pyxis_options(image: str, writable: Sequence[str], read_only: Sequence[str]) -> list[str]:
    mounts = [f"{path}:{path}" for path in writable] + [f"{path}:{path}:ro" for path in read_only]
    return [
        f"--container-image={_enroot_name(image)}",
        f"--container-mounts={','.join(mounts)}",
        "--no-container-mount-home",
        "--no-container-remap-root",
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
