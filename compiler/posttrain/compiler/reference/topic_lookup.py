"""Finds what a person asks about: a code, a topic, a field by its path, or a field by its name alone."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from posttrain.compiler.diagnosis.key_suggestions import native_keys
from posttrain.compiler.diagnosis.suggest import closest_match
from posttrain.compiler.diagnostic_codes import all_codes
from posttrain.compiler.reference.extension_topics import KIND_TITLES, extension_topics
from posttrain.compiler.reference.topic_markdown import field_markdown, field_path, topic_markdown
from posttrain.compiler.reference.topics import Topic, TopicField, language_topics, reference_definitions
from posttrain.compiler.render.code_page import render_code_page
from posttrain.spec.diagnostic import Code
from posttrain.spec.extension import Catalog

# A path may name a stage or a reward and a node of the user's own.
_MAX_USER_NAMES = 2


@dataclass(frozen=True, slots=True)
class TopicEntry:
    """A topic, or one field of it."""

    topic: Topic
    field: TopicField | None = None

    @property
    def path(self) -> str:
        return self.topic.name if self.field is None else field_path(self.topic, self.field)


@dataclass(frozen=True, kw_only=True)
class Reference:
    """Everything there is to explain, by every path that leads to it."""

    topics: tuple[Topic, ...]
    codes: Mapping[str, Code]
    entries: Mapping[str, tuple[TopicEntry, ...]]


def build_reference(catalog: Catalog) -> Reference:
    found = reference_definitions(catalog)
    topics = (*language_topics(found), *extension_topics(found, catalog))
    entries: dict[str, tuple[TopicEntry, ...]] = {}
    for topic in topics:
        for entry in (TopicEntry(topic), *(TopicEntry(topic, field) for field in topic.fields)):
            for path in _lookup_paths(entry):
                entries[path] = (*entries.get(path, ()), entry)
    return Reference(topics=topics, codes={code.id: code for code in all_codes()}, entries=entries)


def _lookup_paths(entry: TopicEntry) -> Iterator[str]:
    """Every way to say it: its own path, its place in a recipe, a stage's without the verb."""
    topic, field = entry.topic, entry.field
    if field is None and topic.kind == "recipe":
        return
    paths = [entry.path]
    if topic.recipe_path and (field or topic.recipe_path.endswith(topic.name)):
        paths.append(f"{topic.recipe_path}.{field.name}" if field else topic.recipe_path)
    for path in paths:
        yield path
        section, _, rest = path.partition(".")
        _, _, inside = rest.partition(".")
        if section == "stages" and inside:
            yield f"stages.{inside}"


def explain(word: str, known: Reference) -> str | None:
    """The text about a word, or None when nothing is known by it."""
    code = known.codes.get(word.upper())
    if code is not None:
        return render_code_page(code)
    found = _entries_at_path(word, known)
    if not found:
        found = [
            entry for entries in known.entries.values() for entry in entries if _is_field_named(entry, word)
        ]
    fields = [entry for entry in dict.fromkeys(found) if entry.field]
    topics = [entry for entry in dict.fromkeys(found) if not entry.field]
    exact = [entry for entry in fields if entry.path == word]
    if exact:  # with what is below it, which a topic of the same path would tell again
        return _field_page(exact[0], known)
    if topics:
        return "\n".join(topic_markdown(entry.topic) for entry in topics)
    if len(fields) == 1:
        return _field_page(fields[0], known)
    return _same_named_fields(fields) if fields else None


def _entries_at_path(word: str, known: Reference) -> list[TopicEntry]:
    """The entries of a path; names of the user's own in it are passed over."""
    steps = word.split(".")
    for dropped in range(_MAX_USER_NAMES + 1):
        found: dict[TopicEntry, None] = {}
        for places in combinations(range(1, len(steps) - 1), dropped):
            path = ".".join(step for place, step in enumerate(steps) if place not in places)
            found |= dict.fromkeys(known.entries.get(path, ()))
        if found:
            return list(found)
    return []


def _is_field_named(entry: TopicEntry, word: str) -> bool:
    return entry.field is not None and entry.field.name == word


def _field_page(entry: TopicEntry, known: Reference) -> str:
    assert entry.field is not None, "an entry of a field"
    path = entry.path
    below = next((topic for topic in known.topics if topic.name == entry.field.see_also), None)
    places = ((topic, topic.recipe_path) for topic in known.topics if topic.recipe_path)
    choices = [topic.name for topic, place in places if place in (path, f"{path}.{topic.name}")]
    return field_markdown(entry.topic, entry.field, below, choices)


def _same_named_fields(entries: Sequence[TopicEntry]) -> str:
    """Fields of one name, each text once."""
    texts: dict[str, list[str]] = {}
    for entry in entries:
        assert entry.field is not None, "an entry of a field"
        default = f"; default {entry.field.default}" if entry.field.default else ""
        says = f"  {entry.field.description}\n  ({entry.field.value_type}{default})\n"
        texts.setdefault(says, []).append(entry.path)
    return "\n".join(f"{', '.join(paths)}\n{says}" for says, paths in texts.items())


def suggest_topic(word: str, known: Reference) -> str | None:
    """What a person who asked about something unknown may have meant."""
    others = [ours for ours in native_keys(word.lower()) if explain(ours, known) is not None]
    return others[0] if others else closest_match(word, (*known.entries, *known.codes))


def list_topics(known: Reference) -> str:
    """All topics by kind, for somebody who does not know what to ask."""
    codes = sorted(known.codes)
    lines = [
        "recipe explain TOPIC, where TOPIC is one of these, a field of one (models.init.hidden, grpo.beta),",
        "or the code of a diagnostic.",
        "",
        *_wrapped_names("Sections", [f.name for t in known.topics if t.kind == "recipe" for f in t.fields]),
        *_wrapped_names("Stages", [topic.name for topic in known.topics if topic.kind == "stage"]),
    ]
    for kind, title in KIND_TITLES.items():
        lines += _wrapped_names(title, [topic.name for topic in known.topics if topic.kind == kind])
    return "\n".join([*lines, *_wrapped_names("Codes", codes)]).rstrip() + "\n"


def _wrapped_names(title: str, names: Sequence[str]) -> list[str]:
    if not names:
        return []
    rows = [f"{title}:"]
    for name in names:
        if rows[-1].endswith(":") or len(rows[-1]) + len(name) > 98:
            rows.append("  " + name)
        else:
            rows[-1] += f", {name}"
    return [*rows, ""]
