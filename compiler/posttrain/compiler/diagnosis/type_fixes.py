"""Suggests fixes for values of the wrong type."""

import re
import shlex
from collections.abc import Sequence
from typing import Any, Literal, get_args, get_origin

from posttrain.compiler.text.yaml_scalars import suggest_number
from posttrain.compiler.text.yaml_tree import MappingNode, Node, ScalarNode, SequenceNode
from posttrain.spec.declaration_fields import Declaration, DeclaredField, fields_of

Fix = tuple[str, str | None]
_NO_FIX: Fix = ("", None)
_TRUE_WORDS, _FALSE_WORDS = ("yes", "on", "y", "true", "1"), ("no", "off", "n", "false", "0")
# Conversion factors to the unit in the suffix of a field's name.
_UNITS = {
    "minutes": {"s": 1 / 60, "sec": 1 / 60, "m": 1, "min": 1, "h": 60, "hours": 60, "d": 1440},
    "seconds": {"ms": 0.001, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600},
    "gb": {"mb": 0.001, "g": 1, "gb": 1, "gib": 1.073741824, "tb": 1000, "t": 1000},
    "mb": {"kb": 0.001, "m": 1, "mb": 1, "mib": 1.048576, "g": 1000, "gb": 1000},
}


def suggest_fix(expected: Sequence[Any], found: Node, key: str) -> Fix:
    """A help sentence, and the replacement of the value if it is unambiguous."""
    kinds = {get_origin(kind) or kind for kind in expected}
    if isinstance(found, ScalarNode):
        return _fix_scalar(expected, kinds, found, key)
    if list in kinds and isinstance(found, MappingNode):
        return "write a list, even for one item: start the item with `- `, or put it in [ ]", None
    if str in kinds and isinstance(found, SequenceNode) and len(found.items) == 1:
        only = found.items[0]
        if isinstance(only, ScalarNode):
            return f"write {only.text} instead of a list", only.text
        return _NO_FIX
    if str in kinds and isinstance(found, SequenceNode) and key in ("model", "data", "train"):
        return "a stage takes one value: use `matrix: {NAME: [...]}` for a leg of the plan per value", None
    if str not in kinds and isinstance(found, SequenceNode):
        names = [
            one.text for one in found.items if isinstance(one, ScalarNode) and isinstance(one.value, str)
        ]
        entries = ", ".join(f"{name}: ..." for name in names)
        return f"write a mapping with a value for each name: {{{entries}}}" if names else "", None
    return _NO_FIX


def _fix_scalar(expected: Sequence[Any], kinds: set[Any], found: ScalarNode, key: str) -> Fix:
    if found.value is None:
        return f"set a value for `{key}`, or remove the key", None
    if isinstance(found.value, str) and kinds & {int, float}:
        return _fix_number(found, key)
    if isinstance(found.value, float) and int in kinds and found.value.is_integer():
        return f"write {int(found.value)}", str(int(found.value))
    if isinstance(found.value, str) and bool in kinds:
        return _fix_bool(found)
    if list in kinds:
        return _fix_list(found, key)
    for kind in expected:
        if isinstance(kind, type) and issubclass(kind, Declaration):
            return _fix_bare_value(kind, found)
    if str in kinds and not isinstance(found.value, str):
        return f'put it in quotes to make it text: "{found.text}"', f'"{found.text}"'
    return _NO_FIX


def _fix_number(found: ScalarNode, key: str) -> Fix:
    text = found.text.strip().strip("$€£ ")
    if re.fullmatch(r"[-+]?[0-9]{19,}", text):
        return "the number has too many digits", None
    number = _convert_unit(text, key) or suggest_number(text)
    if number is None:
        return _NO_FIX
    unit = key.rpartition("_")[2]
    if unit in _UNITS and not text.replace(".", "").isdigit():
        return f"write only the number of {unit.upper() if unit[-1] == 'b' else unit}: {number}", number
    why = f"YAML reads `{found.text}` as text" if found.plain else "the quotes make it text"
    return f"{why}: write {number}", number


def _convert_unit(text: str, key: str) -> str | None:
    """Convert a value with a unit to the unit of the field: 2h in minutes is 120."""
    units = _UNITS.get(key.rpartition("_")[2])
    written = re.fullmatch(r"([0-9]*\.?[0-9]+)\s*([A-Za-z]+)", text)
    if units is None or written is None or written[2].lower() not in units:
        return None
    return f"{float(written[1]) * units[written[2].lower()]:g}"


def _fix_bool(found: ScalarNode) -> Fix:
    for words, meant in ((_TRUE_WORDS, "true"), (_FALSE_WORDS, "false")):
        if found.text.lower() in words:
            why = f"YAML 1.2 reads `{found.text}` as text" if found.plain else "the quotes make it text"
            return f"{why}: write {meant}", meant
    return _NO_FIX


def _fix_list(found: ScalarNode, key: str) -> Fix:
    if key == "script":
        try:
            parts = [_quote(part) for part in shlex.split(found.text)]
        except ValueError:
            return _NO_FIX
    else:
        parts = [_quote(part.strip()) for part in found.text.split(",") if part.strip()]
    written = f"[{', '.join(parts)}]"
    return f"write {written}", written


def _fix_bare_value(model: type[Declaration], found: ScalarNode) -> Fix:
    """The mapping that a bare value probably stands for."""
    field = _field_for_value(model, found)
    if field is None:
        return _NO_FIX
    others = [one.key for one in fields_of(model).values() if one.required and one is not field]
    value = _quote(found.text) if isinstance(found.value, str) else found.text
    if field.annotation is Any and field.key == "from":
        value = _source_mapping(value)
    more = "".join(f", {key}: ..." for key in others)
    written = f"{{{field.key}: {value}{more}}}"
    return f"write {written}", None if more or "..." in value else written


def _source_mapping(text: str) -> str:
    """The source that a bare name probably means: a file, or a dataset on the hub."""
    if "/" in text and "." not in text.rpartition("/")[2]:
        return f"{{hub: {{name: {text}, columns: ...}}}}"
    return f"{{files: {text}}}" if "." in text else text


def _field_for_value(model: type[Declaration], found: ScalarNode) -> DeclaredField | None:
    fields = list(fields_of(model).values())
    named = [one for one in fields if found.value in _literal_values(one.annotation)]
    taking = [one for one in fields if type(found.value) in _scalar_types(one.annotation)]
    needed = [one for one in fields if one.required and (one in taking or one.annotation is Any)]
    origin = [one for one in fields if one.key == "from"]
    for choice in (named, origin if isinstance(found.value, str) else [], needed, taking):
        if choice:
            return choice[0]
    return None


def _literal_values(kind: Any) -> tuple[Any, ...]:
    if get_origin(kind) is Literal:
        return get_args(kind)
    return tuple(word for part in get_args(kind) for word in _literal_values(part))


def _scalar_types(kind: Any) -> tuple[Any, ...]:
    """The scalar types that a field accepts."""
    if get_origin(kind) in (list, dict, tuple, Literal):
        return ()
    return tuple(one for part in get_args(kind) for one in _scalar_types(part)) or (kind,)


def _quote(text: str) -> str:
    """A text with quotes where a flow mapping needs them."""
    plain = re.fullmatch(r"[A-Za-z~./_][^\s,:#\[\]{}\"']*(:[^\s,:#\[\]{}\"']+)*", text)
    return text if plain else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
