"""The plan: the only contract between the compiler and the runtime.

A plan is canonical JSON: the same recipe, catalog, environment and target produce the same bytes. The
descriptions of the fields are printed by `recipe schema plan` (see `document_schema`).
"""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from posttrain.spec.canonical_json import Json, canonical_json
from posttrain.spec.document import Document
from posttrain.spec.document_json import DocumentError
from posttrain.spec.document_reader import parse_document
from posttrain.spec.field_types import Items

FORMAT = 1


def _is_none(value: object) -> bool:
    return value is None


class StepInput(Document):
    """An input of a step: the product of another step, or one part of it."""

    step: str = Field(description="Id of the step whose product is read.")
    part: str | None = Field(default=None, description="Part of that dataset; null for the whole product.")
    output: str | None = Field(
        default=None,
        exclude_if=_is_none,
        description="Declared output of that script stage, a folder of its product; omitted for the whole"
        " product.",
    )

    @property
    def reference(self) -> str:
        """The input as a recipe names it: STEP, STEP.PART or STEP.OUTPUT."""
        return ".".join(filter(None, (self.step, self.output, self.part)))

    def key_value(self, key: str) -> dict[str, Json]:
        """The part of a key for this input, whose step has the given key."""
        value: dict[str, Json] = {"key": key, "part": self.part}
        return value if self.output is None else {**value, "output": self.output}


class UserFile(Document):
    """A user file that a step reads, with its digest."""

    path: str = Field(description="Path relative to the recipe's folder.")
    sha256: str = Field(
        description="SHA-256 of the content at compile time. The run fails if the file has changed."
    )


class Resources(Document):
    """Machine resources of a running step."""

    cpus: int = Field(default=1, description="CPU cores. The worker uses exactly this many threads.")
    gpus: int = Field(default=0, description="Number of GPUs.")
    memory_gb: float | None = Field(default=None, description="Main memory in GB; null if unknown.")
    network: bool = Field(default=False, description="Whether the step may use the network.")


class Launch(Document):
    """How the processes of a step are started."""

    processes: int = Field(default=1, description="Number of processes.")
    strategy: str = Field(
        default="single", description="Parallelism strategy: single, ddp, zero1, zero2, zero3 or fsdp."
    )
    nodes: int = Field(
        default=1, description="Number of nodes that train, with equally many processes on each."
    )
    engine: str | None = Field(
        default=None, description="Generation engine; null if the step does not generate."
    )
    rollouts: Mapping[str, Json] = Field(
        default_factory=dict[str, Json],
        description="Settings of the engine: mode, gpus, nodes (that a server has for itself),"
        " gpu_memory_utilization, tensor_parallel_size, enable_sleep_mode.",
    )

    @property
    def server_nodes(self) -> int:
        """The number of nodes that run a vLLM server only."""
        nodes = self.rollouts.get("nodes", 0)
        return nodes if isinstance(nodes, int) else 0

    @property
    def all_nodes(self) -> int:
        """The number of nodes of the step: those of the processes, and those of a vLLM server."""
        return self.nodes + self.server_nodes


class SourceLocation(Document):
    """The place of a step's declaration in the recipe."""

    file: str = Field(description="File, relative to the recipe's folder.")
    line: int = Field(description="Line, counted from 1.")
    column: int = Field(description="Column, counted from 1.")


class Step(Document):
    """One unit of work, with everything that is necessary to run it."""

    TITLE: ClassVar[str] = "a step"
    ADVICE: ClassVar[str] = (
        "the plan is damaged or from another version of posttrain: compile the recipe again"
    )

    id: str = Field(
        description="Id: a stage's name, models.NAME or datasets.NAME, followed by @ and the leg if any."
    )
    leg: str = Field(
        default="", description="Combination of matrix values; empty for steps that all legs share."
    )
    kind: str = Field(description="Kind: model, data, or the verb of the stage.")
    entry: str = Field(description="Function that runs the step, as MODULE:FUNCTION.")
    params: Json = Field(description="Parameters of that function.")
    place: SourceLocation = Field(description="Place of the declaration in the recipe.")
    places: Mapping[str, SourceLocation] = Field(
        default_factory=dict[str, SourceLocation],
        description="Places of other declarations that the step uses: endpoints.NAME, rewards.NAME,"
        " rewards.NAME.nodes.ID for Python functions, environments.NAME; and of the keys data, few_shot and"
        " params of its stage.",
    )
    key: str = Field(description="Cache key: a hash of everything that can change the product.")
    key_parts: Mapping[str, str] = Field(description="Digest of each part of the key.")
    key_values: Mapping[str, Json] = Field(
        description="Values behind the digests, to report which one changed on a cache miss."
    )
    pinned: bool = Field(
        default=True,
        description="False if an input is not pinned: then an equal key does not guarantee an equal product.",
    )
    inputs: Mapping[str, StepInput] = Field(
        default_factory=dict[str, StepInput],
        description="Products of other steps that the step reads, by role.",
    )
    files: Mapping[str, UserFile] = Field(
        default_factory=dict[str, UserFile], description="User files that the step reads, by role."
    )
    secrets: Items[str] = Field(
        default=(), description="Environment variables with secrets that the step may read."
    )
    resources: Resources = Field(default=Resources(), description="Machine resources of the step.")
    launch: Launch = Field(default_factory=Launch, description="How its processes are started.")
    image: str | None = Field(
        default=None, description="Container image by digest; null to run on the machine itself."
    )
    attempts: int = Field(default=1, description="Maximum number of attempts in case of transient failures.")
    wait_seconds: float = Field(
        default=5.0, description="Seconds before the second attempt; doubled after each attempt."
    )
    timeout_minutes: float | None = Field(default=None, description="Time limit in minutes; null for none.")
    on_failure: str = Field(
        default="stop", description="Whether independent steps stop or continue after a failure."
    )
    gates: Items[str] = Field(default=(), description="Gates that must pass before the step runs.")
    expect: Mapping[str, Json] = Field(
        default_factory=dict[str, Json],
        description="Expected facts about the run, such as the optimizer steps of a training stage.",
    )
    estimate: Mapping[str, Json] | None = Field(
        default=None,
        description="Estimated seconds, memory_gb, dollars, and the disk space of the product (disk_gb) and"
        " of the checkpoints (checkpoints_gb); null if unknown.",
    )


class Plan(Document):
    """The steps of a run, in topological order."""

    TITLE: ClassVar[str] = "a plan"
    FORMAT: ClassVar[int | None] = FORMAT
    ADVICE: ClassVar[str] = "create one with `recipe plan --format json`"

    name: str = Field(description="Name of the recipe.")
    description: str = Field(description="Purpose of the recipe.")
    seed: int = Field(description="Random seed of the recipe.")
    steps: Items[Step] = Field(description="Steps, each after the steps that it reads.")
    target: Mapping[str, Json] = Field(description="Target machine: the recipe's section `hardware`.")
    tracking: Items[str] = Field(description="Trackers that receive the metrics.")
    format: Literal[1] = Field(default=FORMAT, description="Version of the plan format.")

    def step(self, id: str) -> Step:
        return next(step for step in self.steps if step.id == id)


def plan_to_json(plan: Plan) -> str:
    """The plan as canonical JSON."""
    return canonical_json(plan) + "\n"


def step_to_json(step: Step) -> str:
    return canonical_json(step) + "\n"


def plan_from_json(text: str | bytes) -> Plan:
    """Parse a plan. Raises `DocumentError`, with the fields that do not fit."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return checked_order(parse_document(Plan, data))


def checked_order(plan: Plan) -> Plan:
    """Return a plan that was read, whose steps come after those that they read. Raises `DocumentError`."""
    known = set[str]()
    for step in plan.steps:
        for source in step.inputs.values():
            if source.step not in known:
                problem = f"the step `{step.id}` reads `{source.step}`, which is no step before it"
                raise DocumentError(problem, Plan.ADVICE)
        if step.id in known:
            raise DocumentError(f"two steps are named `{step.id}`", Plan.ADVICE)
        known.add(step.id)
    return plan
