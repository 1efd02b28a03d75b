"""A topic, a field and a code as Markdown that also reads well in a terminal."""

import textwrap
from collections.abc import Sequence

from posttrain.compiler.reference.topics import Field, Topic

_WIDTH = 100


def topic_text(topic: Topic, level: int = 1) -> str:
    """The page of a topic."""
    blocks = [f"{'#' * level} {topic.name}", _filled(topic.says)]
    if topic.where:
        blocks.append(_filled(f"Where: {topic.where}."))
    if topic.notes:
        blocks.append(_filled(" ".join(topic.notes)))
    if topic.fields:
        blocks.append("\n".join(_bullet(field) for field in topic.fields))
    if topic.example:
        blocks.append(fenced(topic.example))
    return "\n\n".join(blocks) + "\n"


def field_text(topic: Topic, field: Field, below: Topic | None, choices: Sequence[str]) -> str:
    """The page of one field, and of what stands below it; `choices` are topics that can stand there."""
    facts = [f"- takes: {field.takes}"]
    facts.append("- required" if field.required else f"- default: {field.default or 'none'}")
    facts.append(f"- where: {topic.inside}")
    if choices:
        facts.append(_filled(f"- explained each: {', '.join(choices)}", indent="  "))
    says = [_filled(field.says)] if field.says else []
    text = "\n\n".join([f"# {path_of(topic, field)}", *says, "\n".join(facts)]) + "\n"
    return text if below is None else f"{text}\n{topic_text(below, 2)}"


def path_of(topic: Topic, field: Field) -> str:
    return field.name if topic.kind == "recipe" else f"{topic.name}.{field.name}"


def _bullet(field: Field) -> str:
    facts = [field.takes]
    if field.required:
        facts.append("required")
    elif field.default:
        facts.append(f"default {field.default}")
    says = field.says if field.says.endswith(".") or not field.says else f"{field.says}."
    see = f" See `{field.see}`." if field.see else ""
    head = f"- `{field.name}` ({'; '.join(facts)})"
    return _filled(f"{head}: {says}{see}" if says or see else head, indent="  ")


def fenced(text: str) -> str:
    return f"```yaml\n{text.rstrip()}\n```"


def _filled(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
