"""Places: the clusters on which `recipe run --on NAME` runs the steps of a plan.

A place is configuration of the user (`places.yaml`). It is never part of a recipe or of a key: the same
step has the same product wherever it runs.
"""

from typing import Annotated, Literal

from pydantic import Field

from posttrain.spec.declaration_fields import Declaration
from posttrain.spec.field_types import Items, Name, checked_by

_VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"
_ABSOLUTE = r"^/"
# One option of sbatch, such as --exclusive or --mail-type=FAIL.
_OPTION = r"^--[a-z]"
_TIME = r"^([0-9]+-)?[0-9]+(:[0-9]{2}){0,2}$"
# Set by posttrain for each job.
_RESERVED_OPTIONS = frozenset(
    [
        "array",
        "cpus-per-task",
        "chdir",
        "dependency",
        "error",
        "export",
        "gpus",
        "gpus-per-node",
        "gres",
        "job-name",
        "mem",
        "nodes",
        "no-requeue",
        "ntasks",
        "output",
        "parsable",
        "requeue",
        "signal",
        "test-only",
        "wrap",
    ]
)


def _check_option(option: str) -> None:
    name = option.lstrip("-").partition("=")[0].partition(" ")[0]
    if name in _RESERVED_OPTIONS:
        raise ValueError(f"posttrain sets --{name} itself")


OptionText = Annotated[str, Field(pattern=_OPTION), checked_by(_check_option)]
VariableName = Annotated[str, Field(pattern=_VARIABLE)]


class AnyPlace(Declaration):
    """What places of every engine have."""

    python: str | None = Field(
        default=None,
        pattern=_ABSOLUTE,
        description="Absolute path of the Python that runs the steps, on the nodes. It needs posttrain"
        " with the"
        " versions of the plan. Default: the Python of the client.",
    )
    home: str | None = Field(
        default=None,
        pattern=_ABSOLUTE,
        description="Folder of runs and products, on a disk that the client and all nodes share under this"
        " path."
        " --home and RECIPE_HOME take precedence. Default: .recipe.",
    )
    cpus: int = Field(
        default=1, ge=1, description="Least number of CPU cores of a step. The plan can require more."
    )
    memory_gb: float | None = Field(
        default=None,
        gt=0,
        le=1e6,
        description="Main memory of a step for which the plan has no value, in GB. Default: the engine's.",
    )
    gpus_per_node: int | None = Field(
        default=None,
        ge=0,
        description="Number of GPUs of a node. A step that requires more is rejected before the run.",
    )
    max_nodes: int | None = Field(
        default=None,
        ge=1,
        description="Maximum number of steps that a run submits at a time, each on one node.",
    )
    keep_alive_seconds: float = Field(
        default=0.0,
        ge=0,
        le=86400,
        description="Time that a node stays allocated after a step and waits for the next one. Its process"
        " keeps"
        " the imports, so that a small step does not pay several seconds for them. 0 gives each step its"
        " own job.",
    )
    environment: dict[VariableName, str] = Field(
        default_factory=dict[str, str],
        description="Environment variables of the nodes, such as LD_LIBRARY_PATH. The policy for the"
        " variables of"
        " steps applies to them.",
    )


class PlaceContainer(Declaration, bare="runtime"):
    """How Slurm jobs start the image of a step."""

    runtime: Literal["pyxis", "apptainer"] = Field(
        description="pyxis (with enroot) or apptainer, which must be installed on the nodes."
    )
    mounts: Items[Annotated[str, Field(pattern=_ABSOLUTE)]] = Field(
        default=(), description="Additional folders, mounted read-only under the same path."
    )


class SlurmPlace(AnyPlace):
    """A cluster with Slurm, used through sbatch, squeue and scancel."""

    engine: Literal["slurm"] = Field(description="The engine that schedules the steps: slurm or ray.")
    partition: str | None = Field(default=None, description="Partition. Default: the cluster's.")
    account: str | None = Field(default=None, description="Account to charge. Default: the user's.")
    qos: str | None = Field(default=None, description="Quality of service. Default: the account's.")
    constraint: str | None = Field(default=None, description="Features that a node must have.")
    time_limit: str | None = Field(
        default=None,
        pattern=_TIME,
        description="Time limit of a job: MINUTES, HH:MM:SS or DAYS-HH. Steps save a checkpoint two"
        " minutes before"
        " it. Quote it: YAML can read it as a number. Default: the partition's.",
    )
    gpu_type: str | None = Field(
        default=None, pattern=r"^[A-Za-z0-9_.-]+$", description="Type of the GPUs in gres, such as h100."
    )
    container: PlaceContainer | None = Field(
        default=None, description="How to start steps that have an image: pyxis or apptainer."
    )
    setup: Items[str] = Field(
        default=(), description="Shell lines that the job runs first, such as `module load cuda`."
    )
    options: Items[OptionText] = Field(
        default=(), description="Additional options of sbatch, such as --exclusive."
    )


class RayPlace(AnyPlace):
    """A Ray cluster. The client runs on one of its machines."""

    engine: Literal["ray"] = Field(description="The engine that schedules the steps: slurm or ray.")
    address: str = Field(
        default="auto",
        pattern=r"^(auto|[A-Za-z0-9_.-]+:[0-9]+)$",
        description="Address of the cluster, HOST:PORT; auto is the one that runs on this machine.",
    )
    resources: dict[Name, float] = Field(
        default_factory=dict[str, float], description="Custom resources that each step requires."
    )
    gpu_type: str | None = Field(
        default=None, description="Accelerator type of the nodes, as Ray names it, such as H100."
    )


Place = SlurmPlace | RayPlace
