"""Reads the events of a step and the end of its log."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.events import metric_number, read_events
from posttrain.runtime.report import conversation_turns
from posttrain.runtime.report.number_format import finite_or_none, mapping_or_empty
from posttrain.runtime.report.redaction import redact
from posttrain.runtime.report.run_record import Points, Sample, StepEvents, StepWarning
from posttrain.runtime.report.step_sums import read_progress

_LOG_LINES = 20
_LOG_BYTES = 16_000
# A larger breakdowns file is too long for a page: the page then shows the excerpt in the facts.
_MAX_BREAKDOWN_BYTES = 8_000_000


def read_step_events(path: Path, secrets: tuple[str, ...], *, episodes: bool = False) -> StepEvents:
    """The events of a step by kind. Raises ValueError when the file is malformed."""
    by_kind: dict[str, list[dict[str, Any]]] = {}
    try:
        events = read_events(path)
        for event in events:
            by_kind.setdefault(str(event["kind"]), []).append(event)
    except (OSError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{path}: {error}") from error
    return StepEvents(
        metrics=_metrics(by_kind.get("metrics", ())),
        samples=tuple(make_sample(redact(event, secrets), episodes) for event in by_kind.get("sample", ())),
        warnings=_warnings(redact(event, secrets) for event in by_kind.get("warning", ())),
        checkpoints=_steps(by_kind.get("checkpoint", ())),
        resumed=_steps(by_kind.get("resumed", ())),
        evals=_steps(filter(is_eval, by_kind.get("metrics", ()))),
        phases=_phases(by_kind.get("phase", ())),
        progress=read_progress(events),
    )


def is_eval(event: Mapping[str, Any]) -> bool:
    """Whether metrics are those of an evaluation during training."""
    return any(str(name).startswith("eval/") for name in mapping_or_empty(event.get("values")))


def _metrics(events: Iterable[Mapping[str, Any]]) -> dict[str, Points]:
    """Each metric by optimizer step; a later value at the same step replaces the earlier one."""
    found: dict[str, dict[float, float]] = {}
    for event in events:
        step = finite_or_none(event.get("step"))
        if step is None:
            continue
        for name, value in mapping_or_empty(event.get("values")).items():
            if (number := metric_number(value)) is not None:
                found.setdefault(str(name), {})[step] = number
    return {name: tuple(sorted(points.items())) for name, points in found.items()}


def make_sample(event: Mapping[str, Any], episodes: bool) -> Sample:
    """A sample from an event, or from a row with the same names."""
    completion = event.get("completion") or ""
    turns = conversation_turns.parse_messages(event.get("transcript")) or conversation_turns.parse_messages(
        completion
    )
    if not turns and episodes and isinstance(completion, str):
        turns = conversation_turns.split_episode(completion)
    return Sample(
        step=_step(event),
        prompt=_text(event.get("prompt") or ""),
        completion=_text(completion),
        values=mapping_or_empty(event.get("values")),
        model=str(event.get("model") or ""),
        turns=turns,
        prompt_turns=conversation_turns.parse_messages(event.get("prompt")),
    )


def _text(value: Any) -> str:
    """A prompt or a completion, which can be a list of messages."""
    messages = conversation_turns.parse_messages(value)
    return "\n".join(map(conversation_turns.turn_text, messages)) if messages else str(value)


def read_breakdowns(files: Path | None, facts: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """The breakdowns of an eval: the complete ones from its product, or the excerpt in the facts."""
    found = facts.get("breakdowns")
    if not isinstance(found, list):
        return ()
    path = files / "breakdowns.json" if files is not None else None
    if path is not None and path.is_file() and path.stat().st_size <= _MAX_BREAKDOWN_BYTES:
        complete = atomic_io.read_json(path)
        found = complete if isinstance(complete, list) else found
    return tuple(mapping_or_empty(one) for one in found)


def _warnings(events: Iterable[Mapping[str, Any]]) -> tuple[StepWarning, ...]:
    found: dict[tuple[str, str], int] = {}
    for event in events:
        warning = (str(event.get("message") or ""), str(event.get("advice") or ""))
        found[warning] = found.get(warning, 0) + 1
    return tuple(
        StepWarning(message=message, advice=advice, count=n) for (message, advice), n in found.items()
    )


def _phases(events: Iterable[Mapping[str, Any]]) -> tuple[tuple[str, float], ...]:
    timed = [(str(event.get("name")), finite_or_none(event.get("at"))) for event in events]
    return tuple((name, at) for name, at in timed if at is not None)


def _steps(events: Iterable[Mapping[str, Any]]) -> tuple[int, ...]:
    return tuple(sorted({_step(event) for event in events}))


def _step(event: Mapping[str, Any]) -> int:
    found = finite_or_none(event.get("step"))
    return 0 if found is None else int(found)


def log_tail(path: Path, secrets: tuple[str, ...]) -> tuple[str, ...]:
    """The last lines of a log; empty without a log."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _LOG_BYTES))
            data = file.read()
    except OSError:
        return ()
    lines = data.decode("utf-8", "replace").rstrip().splitlines()[-_LOG_LINES:]
    return tuple(redact(line, secrets) for line in lines)
