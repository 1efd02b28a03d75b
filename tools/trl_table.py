"""Generates the table of TRL's arguments that the compiler checks `trl:` against.

    python tools/trl_table.py

The script reads the configuration classes of the installed TRL, which must be the pinned release, and writes
compiler/posttrain/compiler/facts/trl.json: the types of each argument, its default, its choices if they are a
closed set, and the first sentence of its documentation (TRL and transformers: Apache-2.0); and the digests of
the chat templates to which TRL adds generation markers. A test regenerates the table and compares it.
"""

import ast
import dataclasses
import enum
import hashlib
import inspect
import json
import os
import types
import typing
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

TABLE = Path(__file__).parent.parent / "compiler/posttrain/compiler/facts/trl.json"
# The names of Python types in the table.
_TYPES = {str: "text", int: "integer", float: "number", bool: "boolean", dict: "mapping", type(None): "null"}
_MAX_DOC_LENGTH = 200  # maximum characters of a description


def main() -> None:
    TABLE.write_text(render_table(build_table()), encoding="utf-8")


def build_table() -> dict[str, Any]:
    """The complete table: the arguments that most classes share, and the others of each class."""
    classes = {kind.__name__: arguments(kind) for kind in configurations()}
    every = list(classes.values())
    shared = {
        name: entry
        for name, entry in every[0].items()
        if all(other.get(name) == entry for other in every[1:])
    }
    own = {
        kind: {name: entry for name, entry in found.items() if shared.get(name) != entry}
        for kind, found in classes.items()
    }
    release = {name: version(name) for name in ("trl", "transformers")}
    templates = known_chat_templates()
    return {"release": release, "chat_templates": templates, "shared": shared, "classes": own}


def known_chat_templates() -> list[str]:
    """The digests of the published chat templates to which TRL adds generation markers."""
    from trl import chat_template_utils

    source = ast.parse(inspect.getsource(chat_template_utils.get_training_chat_template))
    compared = [node for node in ast.walk(source) if isinstance(node, ast.Compare)]
    names = [
        one.comparators[0].id
        for one in compared
        if isinstance(one.left, ast.Name)
        and one.left.id == "chat_template"
        and isinstance(one.comparators[0], ast.Name)
    ]
    texts = [getattr(chat_template_utils, name) for name in names]
    return sorted(hashlib.sha256(text.encode()).hexdigest() for text in texts)


def configurations() -> list[type]:
    """The configuration classes of the trainers that posttrain's methods use."""
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    from trl.experimental.cpo import CPOConfig
    from trl.experimental.orpo import ORPOConfig
    from trl.trainer.dpo_config import DPOConfig
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.kto_config import KTOConfig
    from trl.trainer.reward_config import RewardConfig
    from trl.trainer.rloo_config import RLOOConfig
    from trl.trainer.sft_config import SFTConfig

    return [SFTConfig, RewardConfig, DPOConfig, KTOConfig, ORPOConfig, CPOConfig, GRPOConfig, RLOOConfig]


def arguments(kind: type) -> dict[str, Any]:
    """Every argument of a configuration class."""
    return {field.name: argument_entry(field) for field in dataclasses.fields(kind) if field.init}


def argument_entry(field: dataclasses.Field[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"type": sorted(recipe_types(field.type)), "default": default_value(field)}
    choices = field.metadata.get("choices") or enum_choices(field.type)
    if choices:
        found["choices"] = sorted(str(choice) for choice in choices)
    return {**found, "doc": doc_sentence(field.metadata)}


def recipe_types(annotation: Any) -> set[str]:
    """The types that a value may have in a recipe, without classes that YAML cannot express."""
    if annotation in _TYPES:
        return {_TYPES[annotation]}
    if annotation in (typing.Any, list):
        return {"any" if annotation is typing.Any else "list<any>"}
    origin = typing.get_origin(annotation)
    parts = typing.get_args(annotation)
    if origin is typing.Annotated:
        return recipe_types(parts[0])
    if origin in (typing.Union, types.UnionType):
        return set().union(*(recipe_types(part) for part in parts))
    if origin is typing.Literal:
        return {_TYPES[type(part)] for part in parts}
    if origin is dict:  # the keys of mappings in a recipe are text
        return {"mapping"} if parts[0] is str else set()
    if origin in (list, tuple):
        return {f"list<{one}>" for one in set().union(*(recipe_types(part) for part in parts))}
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return {"text"}
    return set()


def enum_choices(annotation: Any) -> list[str]:
    """The values of an enumeration within a type."""
    parts = (annotation, *typing.get_args(annotation))
    kinds = [part for part in parts if isinstance(part, type) and issubclass(part, enum.Enum)]
    return [str(member.value) for kind in kinds for member in kind]


def default_value(field: dataclasses.Field[Any]) -> Any:
    value = field.default
    if field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    if value is dataclasses.MISSING:
        return None
    return value.value if isinstance(value, enum.Enum) else value


def doc_sentence(metadata: Mapping[str, Any]) -> str:
    """The first sentence of an argument's documentation."""
    words = " ".join(str(metadata.get("help", "")).replace("%%", "%").split())
    sentence = words.split(". ")[0].rstrip(".")
    return sentence if len(sentence) <= _MAX_DOC_LENGTH else sentence[: _MAX_DOC_LENGTH - 3] + "..."


def render_table(value: dict[str, Any]) -> str:
    """The table as JSON, one argument per line, so that the diff of a new release is readable."""
    lines = [
        "{",
        f' "release": {_line(value["release"])},',
        ' "chat_templates": [',
        *(
            f'  "{digest}"{"," if digest != value["chat_templates"][-1] else ""}'
            for digest in value["chat_templates"]
        ),
        " ],",
        ' "shared": {',
        *_entries(value["shared"], 2),
        " },",
    ]
    lines.append(' "classes": {')
    for index, (kind, own) in enumerate(value["classes"].items()):
        comma = "," if index + 1 < len(value["classes"]) else ""
        lines += [f'  "{kind}": {{', *_entries(own, 3), f"  }}{comma}"]
    return "\n".join([*lines, " }", "}"]) + "\n"


def _entries(entries: Mapping[str, Any], indent: int) -> list[str]:
    lines = [f"{' ' * indent}{_line(name)}: {_line(entry)}," for name, entry in sorted(entries.items())]
    return [*lines[:-1], lines[-1].rstrip(",")] if lines else []


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    main()
