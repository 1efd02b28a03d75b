"""Looks up a word in the reference: a code, a topic, a field by its path, or a field by its name."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from posttrain.compiler.diagnosis.key_suggestions import native_keys
from posttrain.compiler.diagnostic_codes import all_codes
from posttrain.compiler.reference.concepts import CONCEPTS, Concept
from posttrain.compiler.reference.extension_topics import KIND_TITLES, extension_topics
from posttrain.compiler.reference.topic_markdown import field_markdown, field_path, topic_markdown
from posttrain.compiler.reference.topics import Topic, TopicField, language_topics, reference_definitions
from posttrain.compiler.render.code_page import render_code_page
from posttrain.spec.diagnostic import Code
from posttrain.spec.extension import Catalog
from posttrain.spec.suggestions import closest_match

# A path can contain user-defined names: of a stage, or of a reward and a node.
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
    """All topics and codes, and an index of entries by path."""

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
    """All paths of an entry: its own path, its path in a recipe, and that of a stage without the verb."""
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


def explain(word: str, reference: Reference) -> str | None:
    """The explanation of a word, or None if it is unknown.

    Stages have priority over other entries of the same name, such as `gate`.
    """
    code = reference.codes.get(word.upper())
    if code is not None:
        return render_code_page(code)
    concept = CONCEPTS.get(word.lower())
    if concept is not None:
        return _concept_page(word, concept, reference)
    stage = next((topic for topic in reference.topics if topic.name == f"stages.{word}"), None)
    if stage is not None and stage.kind == "stage":
        return _stage_page(word, stage, reference)
    return _topics_and_fields(word, reference)


def _concept_page(word: str, concept: Concept, reference: Reference) -> str:
    text = f"# {word.lower()}\n\n{concept.text}\n"
    topic = next((topic for topic in reference.topics if topic.name == concept.topic), None)
    return f"{text}\n{topic_markdown(topic, 2)}" if topic else text


def _stage_page(verb: str, stage: Topic, reference: Reference) -> str:
    inner = {field.see_also for field in stage.fields if field.see_also.startswith(f"{stage.name}.")}
    blocks = [topic_markdown(stage)]
    blocks += [topic_markdown(topic, 2) for topic in reference.topics if topic.name in inner]
    if verb == "train":
        methods = [topic for topic in reference.topics if topic.kind == "method"]
        rows = [f"- `{topic.name}`: {topic.description}" for topic in methods]
        blocks.append("\n".join(["## Methods", "", *rows, ""]))
    others = [topic for topic in reference.topics if topic.name == verb]
    others += [entry.topic for entry in _fields_named(verb, reference) if entry.topic.name != stage.name]
    paths = list(dict.fromkeys(topic.recipe_path or topic.name for topic in others))
    if paths:
        blocks.append(f"Also a name in: {', '.join(f'`{path}`' for path in paths)}.\n")
    return "\n".join(blocks)


def _topics_and_fields(word: str, reference: Reference) -> str | None:
    found = _entries_at_path(word, reference)
    exact = [entry for entry in found if entry.field and entry.path == word]
    if exact:  # the page includes the keys below it, which a topic of the same path would repeat
        return _field_page(exact[0], reference)
    topics = [entry for entry in found if not entry.field]
    fields = [entry for entry in found if entry.field]
    if "." not in word:
        fields = list(dict.fromkeys([*fields, *_fields_named(word, reference)]))
    if len(fields) == 1 and not topics:
        return _field_page(fields[0], reference)
    blocks = [_same_named_fields(fields)] if fields else []
    shown = [entry.topic for entry in topics]
    below = {entry.field.see_also for entry in fields if entry.field is not None}
    shown += [topic for topic in reference.topics if topic.name in below and topic not in shown]
    blocks += [topic_markdown(topic) for topic in shown]
    return "\n".join(blocks) if blocks else None


def _fields_named(word: str, reference: Reference) -> list[TopicEntry]:
    """All fields with this name."""
    every = (entry for entries in reference.entries.values() for entry in entries)
    return [entry for entry in dict.fromkeys(every) if entry.field is not None and entry.field.name == word]


def _entries_at_path(word: str, reference: Reference) -> list[TopicEntry]:
    """The entries of a path, ignoring user-defined names in it."""
    steps = word.split(".")
    for dropped in range(_MAX_USER_NAMES + 1):
        found: dict[TopicEntry, None] = {}
        for places in combinations(range(1, len(steps) - 1), dropped):
            path = ".".join(step for place, step in enumerate(steps) if place not in places)
            found |= dict.fromkeys(reference.entries.get(path, ()))
        if found:
            return list(found)
    return []


def _field_page(entry: TopicEntry, reference: Reference) -> str:
    assert entry.field is not None, "an entry of a field"
    path = entry.path
    below = next((topic for topic in reference.topics if topic.name == entry.field.see_also), None)
    places = ((topic, topic.recipe_path) for topic in reference.topics if topic.recipe_path)
    choices = [topic.name for topic, place in places if place in (path, f"{path}.{topic.name}")]
    return field_markdown(entry.topic, entry.field, below, choices)


def _same_named_fields(entries: Sequence[TopicEntry]) -> str:
    """Fields with the same name, grouped by text."""
    texts: dict[str, list[str]] = {}
    for entry in entries:
        assert entry.field is not None, "an entry of a field"
        default = f"; default {entry.field.default}" if entry.field.default else ""
        says = f"  {entry.field.description}\n  ({entry.field.value_type}{default})\n"
        texts.setdefault(says, []).append(entry.path)
    return "\n".join(f"{', '.join(paths)}\n{says}" for says, paths in texts.items())


def suggest_topic(word: str, reference: Reference) -> str | None:
    """The closest known topic for an unknown word."""
    others = [ours for ours in native_keys(word.lower()) if explain(ours, reference) is not None]
    return others[0] if others else closest_match(word, (*reference.entries, *reference.codes))


def list_topics(reference: Reference) -> str:
    """The list of all topics by kind."""
    codes = sorted(reference.codes)
    lines = [
        "Usage: recipe explain TOPIC. TOPIC is one of the following, the path of a key (such as",
        "models.init.hidden_size or grpo.beta), or a diagnostic code.",
        "",
        *_wrapped_names(
            "Sections", [f.name for t in reference.topics if t.kind == "recipe" for f in t.fields]
        ),
        *_wrapped_names("Stages", [topic.name for topic in reference.topics if topic.kind == "stage"]),
    ]
    for kind, title in KIND_TITLES.items():
        lines += _wrapped_names(title, [topic.name for topic in reference.topics if topic.kind == kind])
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
