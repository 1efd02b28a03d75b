"""Renders topics and fields as Markdown that is readable in a terminal."""

import textwrap
from collections.abc import Sequence

from posttrain.compiler.reference.topics import Topic, TopicField

_WIDTH = 100


def topic_markdown(topic: Topic, level: int = 1) -> str:
    """The page of a topic."""
    blocks = [f"{'#' * level} {topic.name}", _wrap(topic.description)]
    if topic.location:
        blocks.append(_wrap(f"Where: {topic.location}."))
    if topic.notes:
        blocks.append(_wrap(" ".join(topic.notes)))
    if topic.fields:
        blocks.append("\n".join(_bullet(field) for field in topic.fields))
    if topic.example:
        blocks.append(fenced_yaml(topic.example))
    return "\n\n".join(blocks) + "\n"


def field_markdown(topic: Topic, field: TopicField, below: Topic | None, choices: Sequence[str]) -> str:
    """The page of one field, and of the topic below it. `choices` are the topics that are valid values."""
    facts = [f"- takes: {field.value_type}"]
    facts.append("- required" if field.required else f"- default: {field.default or 'none'}")
    facts.append(f"- where: {topic.field_location}")
    if choices:
        facts.append(_wrap(f"- topics: {', '.join(choices)}", indent="  "))
    says = [_wrap(field.description)] if field.description else []
    text = "\n\n".join([f"# {field_path(topic, field)}", *says, "\n".join(facts)]) + "\n"
    return text if below is None else f"{text}\n{topic_markdown(below, 2)}"


def field_path(topic: Topic, field: TopicField) -> str:
    return field.name if topic.kind == "recipe" else f"{topic.name}.{field.name}"


def _bullet(field: TopicField) -> str:
    facts = [field.value_type]
    if field.required:
        facts.append("required")
    elif field.default:
        facts.append(f"default {field.default}")
    says = (
        field.description
        if field.description.endswith(".") or not field.description
        else f"{field.description}."
    )
    see = f" See `{field.see_also}`." if field.see_also else ""
    head = f"- `{field.name}` ({'; '.join(facts)})"
    return _wrap(f"{head}: {says}{see}" if says or see else head, indent="  ")


def fenced_yaml(text: str) -> str:
    return f"```yaml\n{text.rstrip()}\n```"


def _wrap(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
