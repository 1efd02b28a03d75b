"""What the run was made of: versions, files, images, seeds; and each step with its key."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from posttrain.runtime.report.estimates import expected_memory, expected_time
from posttrain.runtime.report.figures import (
    duration,
    finite,
    listed,
    moment,
    number,
    plural,
    size,
    table_of,
    value_text,
)
from posttrain.runtime.report.markup import MANY, Markup, joined, preformatted, scrolling, tag
from posttrain.runtime.report.record import RunRecord, StepRecord
from posttrain.runtime.report.states import icon, known, label
from posttrain.spec.version import VERSION

_LONGEST = 20_000


def provenance_section(run: RunRecord) -> Markup:
    about = tag("section", tag("h3", "Run"), _list(_about(run)), class_="card")
    return joined([tag("div", about, _versions(run), class_="pair"), _files(run)])


def _about(run: RunRecord) -> list[tuple[str, object]]:
    plan = run.plan
    images = sorted({record.step.image for record in run.steps if record.step.image})
    secrets = sorted({name for record in run.steps for name in record.step.secrets})
    target = {name: value for name, value in plan.target.items() if value is not None}
    found: list[tuple[str, object]] = [
        ("Run", run.name),
        ("Recipe", run.recipe),
        ("Seed", str(plan.seed)),
        ("Began", moment(run.began)),
        ("Ended", moment(run.ended)),
        ("Target", ", ".join(f"{name} {value_text(value)}" for name, value in target.items())),
        ("Images", tag("span", listed(images, 6), class_="code") if images else ""),
        ("Trackers", listed(list(plan.tracking), 9) if plan.tracking else ""),
        ("Secrets, by name", listed(secrets, 9) if secrets else ""),
        ("posttrain", f"{VERSION} (wrote this report)"),
    ]
    return [(name, value) for name, value in found if value]


def _list(rows: Iterable[tuple[str, object]]) -> Markup:
    cells = [
        tag("div", tag("dt", name), tag("dd", value if isinstance(value, Markup) else str(value)))
        for name, value in rows
    ]
    return tag("dl", cells)


def _versions(run: RunRecord) -> Markup | None:
    """The distributions that results depend on; where steps differ, who has which."""
    found: dict[str, dict[str, list[str]]] = {}
    for record in run.steps:
        for name, version in table_of(record.step.key_values.get("environment")).items():
            found.setdefault(str(name), {}).setdefault(value_text(version), []).append(record.id)
    if not found:
        return None
    rows = [
        tag("tr", tag("th", name, scope="row"), tag("td", _version(versions), class_="code"))
        for name, versions in sorted(found.items())
    ]
    head = tag("tr", tag("th", "Distribution", scope="col"), tag("th", "Version", scope="col"))
    table = tag("table", tag("thead", head), tag("tbody", rows))
    return tag("section", tag("h3", "Environment"), table, class_="card")


def _version(versions: Mapping[str, Sequence[str]]) -> str:
    if len(versions) == 1:
        return next(iter(versions))
    return "; ".join(f"{version} ({listed(list(steps))})" for version, steps in sorted(versions.items()))


def _files(run: RunRecord) -> Markup | None:
    """The user's files that went in, by digest."""
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
            tag("td", listed(steps)),
        )
        for (path, digest), steps in sorted(used.items())
    ]
    heads = [tag("th", words, scope="col") for words in ("File", "sha256", "Read by")]
    table = tag("table", tag("thead", tag("tr", heads)), tag("tbody", rows))
    return tag(
        "section",
        tag("h3", "Files beside the recipe"),
        scrolling("Files", table),
        class_="card",
    )


def steps_section(run: RunRecord) -> Markup:
    """Every step with all that is known of it, folded away."""
    place = {record.id: index for index, record in enumerate(run.steps)}
    steps = [_step(index, record, place) for index, record in enumerate(run.steps)]
    found = scrolling("All steps", steps, tall=True) if len(steps) > MANY else joined(steps)
    return tag("div", found, class_="card steps")


def _step(index: int, record: StepRecord, place: Mapping[str, int]) -> Markup:
    said = " \u00b7 ".join(filter(None, (record.step.kind, label(record.state), duration(record.seconds))))
    summary = tag(
        "summary",
        icon(record.sign),
        tag("b", record.id),
        tag("span", said, class_="soft"),
        class_=f"s-{known(record.sign)}",
    )
    parts = [summary, _list(_facts(record, place)), _products(record), _values(record)]
    return tag("details", parts, id=f"step-{index}")


def _facts(record: StepRecord, place: Mapping[str, int]) -> list[tuple[str, object]]:
    step = record.step
    reads = [
        _link(given.step + (f".{given.part}" if given.part else ""), place.get(given.step))
        for given in step.inputs.values()
    ]
    gates = [_link(gate, place.get(gate)) for gate in step.gates]
    written = f"{step.place.file}, line {step.place.line}" if step.place.file else ""
    found: list[tuple[str, object]] = [
        ("Key", tag("span", record.key, class_="code breaks")),
        ("Pinned", "" if step.pinned else "no: what goes in is not held to a revision"),
        ("Reason", record.reason),
        ("Advice", record.advice),
        ("Written in", written),
        ("Reads", Markup(", ".join(reads))),
        ("Behind the gate", Markup(", ".join(gates))),
        ("Began", moment(record.began) if record.began is not None else ""),
        ("Ended", moment(record.ended) if record.ended is not None else ""),
        ("Expected to take", expected_time(record)),
        ("Peak memory", _memory(record, "peak_memory_mb")),
        ("Peak memory of a GPU", _memory(record, "peak_gpu_mb")),
        ("Expected memory", size(memory) if (memory := expected_memory(record)) is not None else ""),
        ("Attempts", str(record.attempt) if record.attempt > 1 else ""),
        ("Image", step.image or ""),
        *(
            (name.capitalize(), number(value))
            for name, value in record.facts.items()
            if finite(value) is not None
        ),
    ]
    return [(name, value) for name, value in found if value]


def _memory(record: StepRecord, name: str) -> str:
    found = finite(record.cost.get(name))
    return f"{found:,.0f} MB" if found else ""


def _link(name: str, index: int | None) -> Markup:
    return tag("a", name, href=f"#step-{index}") if index is not None else tag("span", name)


def _products(record: StepRecord) -> Markup | None:
    """The files that came out, with size and digest."""
    if not record.files:
        return None
    rows = [
        tag(
            "tr",
            tag("th", name, scope="row"),
            tag("td", size(table_of(about).get("size")), class_="number"),
            tag("td", str(table_of(about).get("sha256", ""))[:16], class_="code"),
        )
        for name, about in list(record.files.items())[:50]
    ]
    heads = tag(
        "tr",
        tag("th", "File", scope="col"),
        tag("th", "Size", scope="col", class_="number"),
        tag("th", "sha256, its beginning", scope="col"),
    )
    whole = sum(finite(table_of(about).get("size")) or 0 for about in record.files.values())
    title = tag("summary", f"Product: {plural(len(record.files), 'file')}, {size(whole)}")
    return tag("details", title, scrolling("Files", tag("table", tag("thead", heads), tag("tbody", rows))))


def _values(record: StepRecord) -> Markup | None:
    """What the key is made from."""
    values: Mapping[str, Any] = record.step.key_values
    if not values:
        return None
    words = json.dumps(values, indent=1, sort_keys=True, ensure_ascii=False, default=str)
    cut = words if len(words) <= _LONGEST else words[:_LONGEST] + "\n..."
    return tag("details", tag("summary", f"Key: {plural(len(values), 'part')}"), preformatted(cut))
