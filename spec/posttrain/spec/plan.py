"""The plan: the only contract between the compiler and the runtime.

A plan is canonical JSON: the same recipe, catalog, environment and target produce the same bytes. The
annotation of each field is its documentation, which `recipe schema plan` prints (see `plan_schema`).
"""

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any

from posttrain.spec.record import record, to_builtins

FORMAT = 1
Json = Any


@record(kw_only=True)
class StepInput:
    """An input of a step: the product of another step, or one part of it."""

    step: Annotated[str, "Id of the step whose product is read."]
    part: Annotated[str | None, "Part of that dataset; null for the whole product."] = None


@record(kw_only=True)
class UserFile:
    """A user file that a step reads, with its digest."""

    path: Annotated[str, "Path relative to the recipe's folder."]
    sha256: Annotated[str, "SHA-256 of the content at compile time. The run fails if the file has changed."]


@record(kw_only=True)
class Resources:
    """Machine resources of a running step."""

    cpus: Annotated[int, "CPU cores. The worker uses exactly this many threads."] = 1
    gpus: Annotated[int, "Number of GPUs."] = 0
    memory_gb: Annotated[float | None, "Main memory in GB; null if unknown."] = None
    network: Annotated[bool, "Whether the step may use the network."] = False


@record(kw_only=True)
class Launch:
    """How the processes of a step are started."""

    processes: Annotated[int, "Number of processes."] = 1
    strategy: Annotated[str, "Parallelism strategy: single, ddp, zero1, zero2, zero3 or fsdp."] = "single"
    engine: Annotated[str | None, "Generation engine; null if the step does not generate."] = None
    rollouts: Annotated[
        Mapping[str, Json],
        "Settings of the engine: mode, gpus, gpu_memory_utilization, tensor_parallel_size,"
        " enable_sleep_mode.",
    ] = field(default_factory=dict[str, Json])


@record(kw_only=True)
class SourceLocation:
    """The place of a step's declaration in the recipe."""

    file: Annotated[str, "File, relative to the recipe's folder."]
    line: Annotated[int, "Line, counted from 1."]
    column: Annotated[int, "Column, counted from 1."]


@record(kw_only=True)
class Step:
    """One unit of work, with everything that is necessary to run it."""

    id: Annotated[str, "Id: a stage's name, models.NAME or datasets.NAME, followed by @ and the leg if any."]
    leg: Annotated[str, "Combination of matrix values; empty for steps that all legs share."] = ""
    kind: Annotated[str, "Kind: model, data, or the verb of the stage."]
    entry: Annotated[str, "Function that runs the step, as MODULE:FUNCTION."]
    params: Annotated[Json, "Parameters of that function."]
    place: Annotated[SourceLocation, "Place of the declaration in the recipe."]
    key: Annotated[str, "Cache key: a hash of everything that can change the product."]
    key_parts: Annotated[Mapping[str, str], "Digest of each part of the key."]
    key_values: Annotated[
        Mapping[str, Json], "Values behind the digests, to report which one changed on a cache miss."
    ]
    pinned: Annotated[
        bool, "False if an input is not pinned: then an equal key does not guarantee an equal product."
    ] = True
    inputs: Annotated[Mapping[str, StepInput], "Products of other steps that the step reads, by role."] = (
        field(default_factory=dict[str, StepInput])
    )
    files: Annotated[Mapping[str, UserFile], "User files that the step reads, by role."] = field(
        default_factory=dict[str, UserFile]
    )
    secrets: Annotated[tuple[str, ...], "Environment variables with secrets that the step may read."] = ()
    resources: Annotated[Resources, "Machine resources of the step."] = Resources()
    launch: Annotated[Launch, "How its processes are started."] = field(default_factory=Launch)
    image: Annotated[str | None, "Container image by digest; null to run on the machine itself."] = None
    attempts: Annotated[int, "Maximum number of attempts in case of transient failures."] = 1
    wait_seconds: Annotated[float, "Seconds before the second attempt; doubled after each attempt."] = 5.0
    timeout_minutes: Annotated[float | None, "Time limit in minutes; null for none."] = None
    on_failure: Annotated[str, "Whether independent steps stop or continue after a failure."] = "stop"
    gates: Annotated[tuple[str, ...], "Gates that must pass before the step runs."] = ()
    expect: Annotated[
        Mapping[str, Json], "Expected facts about the run, such as the optimizer steps of a training stage."
    ] = field(default_factory=dict[str, Json])
    estimate: Annotated[
        Mapping[str, Json] | None,
        "Estimated seconds, memory_gb and dollars; null if unknown.",
    ] = None


@record(kw_only=True)
class Plan:
    """The steps of a run, in topological order."""

    name: Annotated[str, "Name of the recipe."]
    description: Annotated[str, "Purpose of the recipe."]
    seed: Annotated[int, "Random seed of the recipe."]
    steps: Annotated[tuple[Step, ...], "Steps, each after the steps that it reads."]
    target: Annotated[Mapping[str, Json], "Target machine: the recipe's section `hardware`."]
    tracking: Annotated[tuple[str, ...], "Trackers that receive the metrics."]
    format: Annotated[int, "Version of the plan format."] = FORMAT

    def step(self, id: str) -> Step:
        return next(step for step in self.steps if step.id == id)


def plan_to_json(plan: Plan) -> str:
    """The plan as canonical JSON."""
    return canonical_json(plan) + "\n"


def canonical_json(value: Json) -> str:
    """Deterministic JSON with sorted keys. Records become mappings."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=to_builtins)


def step_to_json(step: Step) -> str:
    return canonical_json(step) + "\n"


def plan_from_json(text: str) -> Plan:
    data = json.loads(text)
    if data.get("format") != FORMAT:
        raise ValueError(f"this plan has format {data.get('format')!r}, not {FORMAT}")
    steps = tuple(step_from_dict(item) for item in data.pop("steps"))
    data["tracking"] = tuple(data["tracking"])
    return Plan(**data, steps=steps)


def step_from_dict(data: dict[str, Json]) -> Step:
    """A step from its JSON object."""
    data = dict(data)
    data["place"] = SourceLocation(**data["place"])
    data["inputs"] = {role: StepInput(**item) for role, item in data["inputs"].items()}
    data["files"] = {role: UserFile(**item) for role, item in data["files"].items()}
    data["resources"] = Resources(**data["resources"])
    data["launch"] = Launch(**data["launch"])
    data["secrets"] = tuple(data["secrets"])
    data["gates"] = tuple(data["gates"])
    return Step(**data)
