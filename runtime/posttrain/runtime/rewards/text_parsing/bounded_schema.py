"""JSON Schema with a limit of CPU time on each search of a pattern.

jsonschema searches with the standard library, where one pattern can take ages. Here a search beyond the limit
raises TimeoutError, and the value counts as not valid.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from posttrain.runtime.rewards.text_parsing.bounded_regex import search_text

_MAX_CPU_SECONDS = 0.25  # for one search


def bounded_validator(schema: dict[str, Any]) -> Any:
    """A validator of a schema whose references stay within it."""
    from jsonschema.validators import extend, validator_for
    from referencing import Registry

    kind: Any = validator_for(schema)
    unbounded = kind.VALIDATORS.get("additionalProperties")

    def additional_properties(validator: Any, allowed: Any, value: Any, within: Mapping[str, Any]) -> Any:
        check = _check_additional if within.get("patternProperties") else unbounded
        return check(validator, allowed, value, within)

    keywords = {
        "pattern": _check_pattern,
        "patternProperties": _check_pattern_properties,
        "additionalProperties": additional_properties,
    }
    return extend(kind, keywords)(schema, registry=Registry())


def _check_pattern(validator: Any, pattern: str, value: Any, schema: Any) -> Iterator[Any]:
    from jsonschema.exceptions import ValidationError

    if validator.is_type(value, "string") and not _search(pattern, value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _check_pattern_properties(
    validator: Any, patterns: Mapping[str, Any], value: Any, schema: Any
) -> Iterator[Any]:
    if not validator.is_type(value, "object"):
        return
    for pattern, inner in patterns.items():
        for name, item in value.items():
            if _search(pattern, name):
                yield from validator.descend(item, inner, path=name, schema_path=pattern)


def _check_additional(validator: Any, allowed: Any, value: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
    from jsonschema.exceptions import ValidationError

    if not validator.is_type(value, "object"):
        return
    patterns = schema["patternProperties"]
    extras = [
        name
        for name in value
        if name not in schema.get("properties", {}) and not any(_search(one, name) for one in patterns)
    ]
    if validator.is_type(allowed, "object"):
        for name in extras:
            yield from validator.descend(value[name], allowed, path=name)
    elif not allowed and extras:
        listed = ", ".join(map(repr, sorted(extras)))
        yield ValidationError(f"{listed}: no such property, and none of the patterns matches")


def _search(pattern: str, text: str) -> bool:
    found = search_text(
        _compile(pattern),
        text,
        lambda one, within, seconds: one.search(within, timeout=seconds),
        _MAX_CPU_SECONDS,
    )
    return found is not None


@cache
def _compile(pattern: str) -> Any:
    import regex

    return regex.compile(pattern)
