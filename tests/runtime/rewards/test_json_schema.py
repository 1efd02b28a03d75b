"""JSON Schemas are accepted only if all their references are internal."""

import json

import pytest

from posttrain.runtime.rewards.ops.json_schema import check_schema, text_violation, validator_for

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
WITHIN = [
    {"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}},
    {"$ref": "#whole", "$defs": {"n": {"$anchor": "whole", "type": "integer"}}},
    {"$id": "https://example.test/a", "$ref": "b", "$defs": {"n": {"$id": "b", "type": "integer"}}},
    {"$schema": DRAFT_7, "$ref": "#/definitions/n", "definitions": {"n": {"type": "integer"}}},
    {"type": "integer", "allOf": [{"not": {"$ref": "https://json-schema.org/draft/2020-12/schema"}}]},
]  # fmt: skip
OUTSIDE = [
    ({"$ref": "https://example.test/elsewhere.json"}, "elsewhere.json"),
    ({"$ref": "#/$defs/m", "$defs": {"n": {}}}, "#/$defs/m"),
    ({"properties": {"a": {"items": {"$ref": "other.json#/x"}}}}, "other.json"),
    ({"$dynamicRef": "https://example.test/tree"}, "tree"),
]


@pytest.mark.parametrize("schema", WITHIN)
def test_a_schema_may_refer_to_its_own_parts(schema: dict):
    check_schema(schema)
    validator = validator_for(schema)
    assert text_violation("3", "whole", validator) is None
    assert text_violation(json.dumps("3"), "whole", validator)


@pytest.mark.parametrize(("schema", "named"), OUTSIDE)
def test_a_schema_that_refers_to_something_outside_is_refused(schema: dict, named: str):
    with pytest.raises(ValueError, match="the schema has no such part") as refused:
        check_schema(schema)
    assert named in str(refused.value)


def test_a_reference_in_what_is_no_schema_is_not_looked_up():
    check_schema({"const": {"$ref": "https://example.test/elsewhere.json"}, "enum": [{"$ref": "x"}]})


def test_a_schema_that_is_none_is_refused():
    with pytest.raises(ValueError, match="not a valid JSON Schema"):
        check_schema({"type": "integr"})
