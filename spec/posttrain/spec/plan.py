"""What a plan is: the only contract between the compiler and the runtime.

A plan is canonical JSON: the same recipe, catalog, environment and target give the same bytes.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

FORMAT = 1
Json = Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Input:
    """What a step reads: the product of another step, or one part of it."""

    step: str
    part: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class UserFile:
    """A file beside the recipe that a step reads, held to its digest."""

    path: str
    sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Resources:
    # Cores, and so threads: the worker computes with exactly this many.
    cpus: int = 1
    gpus: int = 0
    memory_gb: float | None = None
    network: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """How the step's processes are started."""

    processes: int = 1
    strategy: str = "single"
    engine: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where in the recipe a step was written."""

    file: str
    line: int
    column: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    id: str
    # The combination of the matrix that the step belongs to; empty for what all share.
    leg: str = ""
    kind: str
    entry: str
    params: Json
    place: Place
    key: str
    key_parts: Mapping[str, str]
    # The values behind the parts, for saying which one changed.
    key_values: Mapping[str, Json]
    # False when something that goes in is not pinned: the key is then no proof of the product.
    pinned: bool = True
    inputs: Mapping[str, Input] = field(default_factory=dict[str, Input])
    files: Mapping[str, UserFile] = field(default_factory=dict[str, UserFile])
    secrets: tuple[str, ...] = ()
    resources: Resources = Resources()
    launch: Launch = Launch()
    image: str | None = None
    attempts: int = 1
    wait_seconds: float = 5.0
    timeout_minutes: float | None = None
    on_failure: str = "stop"
    # Gates that must let this step through.
    gates: tuple[str, ...] = ()
    # What the step must do: for a training stage, its optimizer steps.
    expect: Mapping[str, Json] = field(default_factory=dict[str, Json])
    estimate: Mapping[str, Json] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    name: str
    description: str
    seed: int
    steps: tuple[Step, ...]
    target: Mapping[str, Json]
    tracking: tuple[str, ...]
    format: int = FORMAT

    def step(self, id: str) -> Step:
        return next(step for step in self.steps if step.id == id)


def to_json(plan: Plan) -> str:
    """The plan's canonical text."""
    return canonical(asdict(plan)) + "\n"


def canonical(value: Json) -> str:
    """JSON with sorted keys and no choice left in how it is written."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def step_to_json(step: Step) -> str:
    return canonical(asdict(step)) + "\n"


def from_json(text: str) -> Plan:
    data = json.loads(text)
    if data.get("format") != FORMAT:
        raise ValueError(f"this plan has format {data.get('format')!r}, not {FORMAT}")
    steps = tuple(step_from(item) for item in data.pop("steps"))
    data["tracking"] = tuple(data["tracking"])
    return Plan(**data, steps=steps)


def step_from(data: dict[str, Json]) -> Step:
    """A step from its JSON object."""
    data = dict(data)
    data["place"] = Place(**data["place"])
    data["inputs"] = {role: Input(**item) for role, item in data["inputs"].items()}
    data["files"] = {role: UserFile(**item) for role, item in data["files"].items()}
    data["resources"] = Resources(**data["resources"])
    data["launch"] = Launch(**data["launch"])
    data["secrets"] = tuple(data["secrets"])
    data["gates"] = tuple(data["gates"])
    return Step(**data)
