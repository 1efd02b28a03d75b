"""Renders the provenance: versions, files, images and seeds of the run, and the key of each step."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from posttrain.runtime.report.expected_vs_measured import expected_memory, expected_time
from posttrain.runtime.report.markup import SCROLL_ROWS, Markup, join_markup, preformatted, scroll_frame, tag
from posttrain.runtime.report.number_format import (
    finite_or_none,
    format_duration,
    format_number,
    format_size,
    format_timestamp,
    format_value,
    join_words,
    mapping_or_empty,
    plural,
)
from posttrain.runtime.report.run_record import RunRecord, StepRecord
from posttrain.runtime.report.step_states import known_state, state_icon, state_label
from posttrain.spec.version import VERSION

_MAX_KEY_TEXT = 20_000


def provenance_section(run: RunRecord) -> Markup:
    about = tag("section", tag("h3", "Run"), _definition_list(_run_facts(run)), class_="card")
    return join_markup([tag("div", about, _versions(run), class_="pair"), _files(run)])


def _run_facts(run: RunRecord) -> list[tuple[str, object]]:
    plan = run.plan
    images = sorted({record.step.image for record in run.steps if record.step.image})
    secrets = sorted({name for record in run.steps for name in record.step.secrets})
    target = {name: value for name, value in plan.target.items() if value is not None}
    found: list[tuple[str, object]] = [
        ("Run", run.name),
        ("Recipe", run.recipe),
        ("Seed", str(plan.seed)),
        ("Started", format_timestamp(run.began)),
        ("Ended", format_timestamp(run.ended)),
        ("Target", ", ".join(f"{name} {format_value(value)}" for name, value in target.items())),
        ("Images", tag("span", join_words(images, 6), class_="code") if images else ""),
        ("Trackers", join_words(list(plan.tracking), 9) if plan.tracking else ""),
        ("Secrets (names)", join_words(secrets, 9) if secrets else ""),
        ("posttrain", f"{VERSION} (generated this report)"),
    ]
    return [(name, value) for name, value in found if value]


def _definition_list(rows: Iterable[tuple[str, object]]) -> Markup:
    cells = [
        tag("div", tag("dt", name), tag("dd", value if isinstance(value, Markup) else str(value)))
        for name, value in rows
    ]
    return tag("dl", cells)


def _versions(run: RunRecord) -> Markup | None:
    """The Python distributions that results depend on, per step where the versions differ."""
    found: dict[str, dict[str, list[str]]] = {}
    for record in run.steps:
        for name, version in mapping_or_empty(record.step.key_values.get("environment")).items():
            found.setdefault(str(name), {}).setdefault(format_value(version), []).append(record.id)
    if not found:
        return None
    rows = [
        tag("tr", tag("th", name, scope="row"), tag("td", _version_text(versions), class_="code"))
        for name, versions in sorted(found.items())
    ]
    head = tag("tr", tag("th", "Distribution", scope="col"), tag("th", "Version", scope="col"))
    table = tag("table", tag("thead", head), tag("tbody", rows))
    return tag("section", tag("h3", "Environment"), table, class_="card")


def _version_text(versions: Mapping[str, Sequence[str]]) -> str:
    if len(versions) == 1:
        return next(iter(versions))
    return "; ".join(f"{version} ({join_words(list(steps))})" for version, steps in sorted(versions.items()))


def _files(run: RunRecord) -> Markup | None:
    """The user's input files, by digest."""
    used: dict[tuple[str, str], list[str]] = {}
    for record in run.steps:
        for file in record.step.files.values():
            used.setdefault((file.path, file.sha256), []).append(record.id)
    if not used:
        return None
    rows = [
        tag(
            "tr",
            tag("th", path, scope="row"),
            tag("td", digest, class_="code breaks"),
            tag("td", join_words(steps)),
        )
        for (path, digest), steps in sorted(used.items())
    ]
    heads = [tag("th", words, scope="col") for words in ("File", "sha256", "Read by")]
    table = tag("table", tag("thead", tag("tr", heads)), tag("tbody", rows))
    return tag(
        "section",
        tag("h3", "Local files"),
        scroll_frame("Files", table),
        class_="card",
    )


def steps_section(run: RunRecord) -> Markup:
    """All details of every step, collapsed."""
    place = {record.id: index for index, record in enumerate(run.steps)}
    steps = [_step(index, record, place) for index, record in enumerate(run.steps)]
    found = scroll_frame("All steps", steps, tall=True) if len(steps) > SCROLL_ROWS else join_markup(steps)
    return tag("div", found, class_="card steps")


def _step(index: int, record: StepRecord, place: Mapping[str, int]) -> Markup:
    about = " \u00b7 ".join(
        filter(None, (record.step.kind, state_label(record.state), format_duration(record.seconds)))
    )
    summary = tag(
        "summary",
        state_icon(record.display_state),
        tag("b", record.id),
        tag("span", about, class_="soft"),
        class_=f"s-{known_state(record.display_state)}",
    )
    parts = [summary, _definition_list(_step_facts(record, place)), _products(record), _key_values(record)]
    return tag("details", parts, id=f"step-{index}")


def _step_facts(record: StepRecord, place: Mapping[str, int]) -> list[tuple[str, object]]:
    step = record.step
    reads = [_link(source.reference, place.get(source.step)) for source in step.inputs.values()]
    gates = [_link(gate, place.get(gate)) for gate in step.gates]
    location = f"{step.place.file}, line {step.place.line}" if step.place.file else ""
    found: list[tuple[str, object]] = [
        ("Key", tag("span", record.key, class_="code breaks")),
        ("Pinned", "" if step.pinned else "no: an input is not pinned to a revision"),
        ("Reason", record.reason),
        ("Advice", record.advice),
        ("Defined in", location),
        ("Inputs", Markup(", ".join(reads))),
        ("Gate", Markup(", ".join(gates))),
        ("Started", format_timestamp(record.began) if record.began is not None else ""),
        ("Ended", format_timestamp(record.ended) if record.ended is not None else ""),
        ("Expected time", expected_time(record)),
        ("Peak memory", _memory(record, "peak_memory_mb")),
        ("Peak GPU memory", _memory(record, "peak_gpu_mb")),
        ("Expected memory", format_size(memory) if (memory := expected_memory(record)) is not None else ""),
        ("Attempts", str(record.attempt) if record.attempt > 1 else ""),
        ("Image", step.image or ""),
        *(
            (name.capitalize(), format_number(value))
            for name, value in record.facts.items()
            if finite_or_none(value) is not None
        ),
    ]
    return [(name, value) for name, value in found if value]


def _memory(record: StepRecord, name: str) -> str:
    found = finite_or_none(record.cost.get(name))
    return f"{found:,.0f} MB" if found else ""


def _link(name: str, index: int | None) -> Markup:
    return tag("a", name, href=f"#step-{index}") if index is not None else tag("span", name)


def _products(record: StepRecord) -> Markup | None:
    """The files of the product, with size and digest."""
    if not record.files:
        return None
    rows = [
        tag(
            "tr",
            tag("th", name, scope="row"),
            tag("td", format_size(mapping_or_empty(about).get("size")), class_="number"),
            tag("td", str(mapping_or_empty(about).get("sha256", ""))[:16], class_="code"),
        )
        for name, about in list(record.files.items())[:50]
    ]
    heads = tag(
        "tr",
        tag("th", "File", scope="col"),
        tag("th", "Size", scope="col", class_="number"),
        tag("th", "sha256 (prefix)", scope="col"),
    )
    whole = sum(finite_or_none(mapping_or_empty(about).get("size")) or 0 for about in record.files.values())
    title = tag("summary", f"Product: {plural(len(record.files), 'file')}, {format_size(whole)}")
    return tag("details", title, scroll_frame("Files", tag("table", tag("thead", heads), tag("tbody", rows))))


def _key_values(record: StepRecord) -> Markup | None:
    """The values that the key is computed from."""
    values: Mapping[str, Any] = record.step.key_values
    if not values:
        return None
    words = json.dumps(values, indent=1, sort_keys=True, ensure_ascii=False, default=str)
    cut = words if len(words) <= _MAX_KEY_TEXT else words[:_MAX_KEY_TEXT] + "\n..."
    return tag("details", tag("summary", f"Key: {plural(len(values), 'part')}"), preformatted(cut))
