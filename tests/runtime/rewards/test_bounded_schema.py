"""Patterns in JSON schemas: an endless search makes a value invalid, and other schemas work as before."""

import json
from typing import Any

import jsonschema
import pytest
from tests.runtime.rewards.test_missing_values import ENDLESS

from posttrain.runtime.rewards.ops.json_schema import check_schema, schema_violation, validator_for
from posttrain.runtime.rewards.text_parsing.bounded_regex import TIMEOUT_REASON

TEXT = "a" * 200 + "!"


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string", "pattern": ENDLESS}, TEXT),
        ({"patternProperties": {ENDLESS: {"type": "integer"}}}, {TEXT: 1}),
        ({"patternProperties": {ENDLESS: {}}, "additionalProperties": False}, {TEXT: 1}),
        ({"additionalProperties": False, "patternProperties": {ENDLESS: {}}}, {TEXT: 1}),
        ({"properties": {"x": {"items": {"pattern": ENDLESS}}}}, {"x": [TEXT]}),
        ({"$defs": {"t": {"pattern": ENDLESS}}, "$ref": "#/$defs/t"}, TEXT),
    ],
)
def test_an_endless_search_makes_a_value_invalid(schema: dict[str, Any], value: Any):
    assert schema_violation(value, validator_for(schema)) == TIMEOUT_REASON


SCHEMAS: list[dict[str, Any]] = [
    {"pattern": "^a+$"},
    {"patternProperties": {"^n_": {"type": "integer"}}},
    {"patternProperties": {"^n_": {"type": "integer"}}, "additionalProperties": False},
    {
        "properties": {"x": {}},
        "patternProperties": {"^n_": {}},
        "additionalProperties": {"type": "string"},
    },
    {"properties": {"x": {"type": "string"}}, "additionalProperties": False},
    {"properties": {"x": {"type": "string"}}, "additionalProperties": {"pattern": "b"}},
]
VALUES: list[Any] = [
    *("aaa", "ab", 3, None, {}),
    *({"n_a": 1}, {"n_a": "1"}, {"x": "a"}, {"x": 1, "y": 2}, {"y": "b"}, {"n_": 1, "x": "a", "y": "c"}),
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=json.dumps)
def test_values_are_valid_as_before(schema: dict[str, Any]):
    library = jsonschema.validators.validator_for(schema)(schema)
    ours = validator_for(schema)
    for value in VALUES:
        assert (schema_violation(value, ours) is None) == library.is_valid(value), value


def test_a_combination_that_cannot_be_limited_is_refused():
    schema = {"patternProperties": {"a": {}}, "unevaluatedProperties": False}
    with pytest.raises(ValueError, match="use `additionalProperties`"):
        check_schema(schema)
    check_schema({"properties": {"a": {}}, "unevaluatedProperties": False})
