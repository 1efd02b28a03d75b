"""What a plan is: the only contract between the compiler and the runtime.

A plan is canonical JSON: the same recipe, catalog, environment and target give the same bytes. The
line beside each field is its documentation: `recipe schema plan` prints it (see `plan_schema`).
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
    """What a step reads: the product of another step, or one part of it."""

    step: Annotated[str, "The id of the step whose product is read."]
    part: Annotated[str | None, "The part of that dataset; null for all of the product."] = None


@record(kw_only=True)
class UserFile:
    """A file beside the recipe that a step reads, held to its digest."""

    path: Annotated[str, "Where it lies, relative to the recipe's folder."]
    sha256: Annotated[str, "The digest of its content when the plan was made."]


@record(kw_only=True)
class Resources:
    """What a step takes of the machine while it runs."""

    cpus: Annotated[int, "Cores, and so threads: the worker computes with exactly this many."] = 1
    gpus: Annotated[int, "GPUs."] = 0
    memory_gb: Annotated[float | None, "Main memory in GB, where it is known."] = None
    network: Annotated[bool, "Whether it may use the network."] = False


@record(kw_only=True)
class Launch:
    """How the step's processes are started."""

    processes: Annotated[int, "Processes that work together."] = 1
    strategy: Annotated[str, "How they share the model."] = "single"
    engine: Annotated[str | None, "What generates text, where something does."] = None
    rollouts: Annotated[
        Mapping[str, Json],
        "Its settings: mode, gpus, gpu_memory_utilization, tensor_parallel_size, enable_sleep_mode.",
    ] = field(default_factory=dict[str, Json])


@record(kw_only=True)
class SourceLocation:
    """Where in the recipe a step was written."""

    file: Annotated[str, "The file, relative to the recipe's folder."]
    line: Annotated[int, "The line, from 1."]
    column: Annotated[int, "The column, from 1."]


@record(kw_only=True)
class Step:
    """One thing that is done, with everything that its doing takes."""

    id: Annotated[str, "The step's name: a stage, models.NAME or datasets.NAME, and @ with its leg."]
    leg: Annotated[str, "The combination of the matrix that it belongs to; empty for what all share."] = ""
    kind: Annotated[str, "What kind of thing is done: model, data, or the stage's verb."]
    entry: Annotated[str, "What does it, as MODULE:FUNCTION."]
    params: Annotated[Json, "What that is given."]
    place: Annotated[SourceLocation, "Where in the recipe it was written."]
    key: Annotated[str, "The hash over all that can change its product."]
    key_parts: Annotated[Mapping[str, str], "The digest of each thing that went into the key."]
    key_values: Annotated[
        Mapping[str, Json], "The values behind these digests, for saying which one changed."
    ]
    pinned: Annotated[
        bool, "False when something that goes in is not pinned: the key is then no proof of the product."
    ] = True
    inputs: Annotated[Mapping[str, StepInput], "What it reads of other steps, by role."] = field(
        default_factory=dict[str, StepInput]
    )
    files: Annotated[Mapping[str, UserFile], "The user's files that it reads, by role."] = field(
        default_factory=dict[str, UserFile]
    )
    secrets: Annotated[tuple[str, ...], "Environment variables whose values it may see."] = ()
    resources: Annotated[Resources, "What it takes of the machine."] = Resources()
    launch: Annotated[Launch, "How its processes are started."] = field(default_factory=Launch)
    image: Annotated[str | None, "The image that it runs in, by digest; null for this machine."] = None
    attempts: Annotated[int, "Tries in all, after failures that may pass."] = 1
    wait_seconds: Annotated[float, "The pause before the second try; it doubles."] = 5.0
    timeout_minutes: Annotated[float | None, "The longest that it may take."] = None
    on_failure: Annotated[str, "Whether independent steps go on when it fails: stop or continue."] = "stop"
    gates: Annotated[tuple[str, ...], "Gates that must let it through."] = ()
    expect: Annotated[Mapping[str, Json], "What it must do: for a training stage, its optimizer steps."] = (
        field(default_factory=dict[str, Json])
    )
    estimate: Annotated[
        Mapping[str, Json] | None,
        "What it will take: seconds, memory_gb, dollars; null where nobody can say.",
    ] = None


@record(kw_only=True)
class Plan:
    """All that a run does, in an order in which it can be done."""

    name: Annotated[str, "The recipe's name."]
    description: Annotated[str, "What the recipe is for."]
    seed: Annotated[int, "Where all randomness starts."]
    steps: Annotated[tuple[Step, ...], "The steps; each comes after those that it reads."]
    target: Annotated[Mapping[str, Json], "The machine that the plan is made for, as the recipe tells it."]
    tracking: Annotated[tuple[str, ...], "Trackers that receive the metrics."]
    format: Annotated[int, "The version of this form."] = FORMAT

    def step(self, id: str) -> Step:
        return next(step for step in self.steps if step.id == id)


def plan_to_json(plan: Plan) -> str:
    """The plan's canonical text."""
    return canonical_json(plan) + "\n"


def canonical_json(value: Json) -> str:
    """JSON with sorted keys and no choice left in how it is written. Records are mappings there."""
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
