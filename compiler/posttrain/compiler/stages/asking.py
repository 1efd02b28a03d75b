"""What eval and generate stages ask, and how: models by an engine, endpoints over HTTP, and their prompts."""

from collections.abc import Mapping
from typing import Any

from posttrain.compiler.data.datasets import Rows
from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.endpoints import asked
from posttrain.compiler.resolution.names import Named, Ref, writers_of
from posttrain.compiler.stages.asking_codes import CANNOT_ASK, NOT_DRAWN
from posttrain.compiler.stages.prompting import Prompting, check_prompting
from posttrain.compiler.text.source import Request
from posttrain.compiler.text.tree import Path
from posttrain.spec.extension import Engine
from posttrain.spec.making import Generate
from posttrain.spec.materials import Endpoint
from posttrain.spec.measuring import Evaluate
from posttrain.spec.record import record
from posttrain.spec.types import Columns

# Providers whose interfaces take conversations and nothing else.
_CHAT_ALONE = ("anthropic", "gemini")


def engine_for(wanted: str, *, endpoint: bool, has_gpus: bool) -> str:
    """What generates: endpoints are asked over HTTP, GPUs run vLLM, everything else transformers."""
    if endpoint:
        return "http"
    if wanted != "auto":
        return wanted
    return "vllm" if has_gpus else "transformers"


@record(kw_only=True)
class Subject:
    """A model that is asked: its name, the role of its product among the inputs, and what runs it."""

    name: str
    role: str
    engine: str
    endpoint: Endpoint | None

    def plan(self) -> dict[str, Any]:
        """The subject as a step's parameters have it: all that its completions depend on."""
        found: dict[str, Any] = {"name": self.name, "role": self.role, "engine": self.engine}
        return found if self.endpoint is None else {**found, "endpoint": asked(self.endpoint)}


@record(kw_only=True)
class Asking:
    """How a stage asks."""

    subjects: tuple[Subject, ...]
    engines: tuple[Engine, ...]
    prompting: Prompting

    @property
    def endpoints(self) -> Mapping[str, Endpoint]:
        return {one.name: one.endpoint for one in self.subjects if one.endpoint is not None}

    @property
    def roles(self) -> tuple[str, ...]:
        """The inputs that are models."""
        return tuple(one.role for one in self.subjects if one.endpoint is None)

    @property
    def secrets(self) -> tuple[str, ...]:
        return tuple(sorted({one.key.env for one in self.endpoints.values() if one.key}))

    def access(self) -> dict[str, Any]:
        """How the endpoints are reached, which changes no completion."""
        return {
            name: {
                "key": one.key.env if one.key else None,
                "concurrency": one.concurrency,
                "timeout_seconds": one.timeout_seconds,
                "attempts": one.attempts,
            }
            for name, one in self.endpoints.items()
        }


def check_asking(
    name: str,
    stage: Evaluate | Generate,
    columns: Columns,
    named: Named,
    rows: Mapping[str, Rows],
    request: Request,
    findings: Findings,
) -> Asking | None:
    """How the stage asks its models; None when one of them is mistaken."""
    prompting = check_prompting(name, stage, columns, named, rows, request, findings)
    subjects: list[Subject] = []
    written = writers_of(name, stage)
    for role, text, path in written:
        ref = named.refs.get((f"stage:{name}", role))
        if ref is None:
            continue
        subject = _subject(text, role, ref, stage, named)
        _check_endpoint(subject, stage, path, ("stages", name), findings)
        subjects.append(subject)
    _check_list(name, stage, findings)
    _check_drawn(name, stage, findings)
    if len(subjects) < len(written) or prompting is None:
        return None
    found = (request.catalog.find("engine", engine) for engine in dict.fromkeys(s.engine for s in subjects))
    return Asking(
        subjects=tuple(subjects),
        engines=tuple(engine for engine in found if isinstance(engine, Engine)),
        prompting=prompting,
    )


def _subject(text: str, role: str, ref: Ref, stage: Evaluate | Generate, named: Named) -> Subject:
    endpoint = named.recipe.endpoints[ref.name] if ref.thing == "endpoint" else None
    has_gpus = named.recipe.hardware.gpus is not None
    engine = engine_for(stage.engine, endpoint=endpoint is not None, has_gpus=has_gpus)
    return Subject(name=text, role=role, engine=engine, endpoint=endpoint)


def _check_endpoint(
    subject: Subject, stage: Evaluate | Generate, path: Path, stage_path: Path, findings: Findings
) -> None:
    """Whether an endpoint can do what the stage says of its sampling and prompts."""
    if subject.endpoint is None:
        return
    what = f"the endpoint `{subject.name}`"
    if stage.prompts == "plain" and subject.endpoint.provider in _CHAT_ALONE:
        message = f"{what} takes conversations, not plain text"
        findings.add(CANNOT_ASK, (*stage_path, "prompts"), message, help="write `prompts: chat`")
    if stage.engine != "auto" and len(writers_of("", stage)) == 1:
        message = f"{what} is asked over HTTP, whatever `engine` says"
        findings.add(CANNOT_ASK, (*stage_path, "engine"), message, help="remove the key")
    for option in ("stop", "continuous"):
        if getattr(stage.sampling, option):
            message = f"{what} does not take `{option}`"
            findings.add(CANNOT_ASK, (*stage_path, "sampling", option), message, help="remove the key")


def _check_list(name: str, stage: Evaluate | Generate, findings: Findings) -> None:
    names = stage.subjects if isinstance(stage, Evaluate) else [stage.generate]
    path: Path = ("stages", name, "eval")
    if not names:
        findings.add(CANNOT_ASK, path, "no model is named")
    for index, subject in enumerate(names):
        if subject in names[:index]:
            findings.add(CANNOT_ASK, (*path, index), f"`{subject}` is named twice")


def _check_drawn(name: str, stage: Evaluate | Generate, findings: Findings) -> None:
    if stage.sampling.samples > 1 and stage.sampling.temperature == 0:
        message = f"{stage.sampling.samples} samples at temperature 0 would be the same text"
        path: Path = ("stages", name, "sampling", "samples")
        findings.add(NOT_DRAWN, path, message, help="give a temperature above 0")
