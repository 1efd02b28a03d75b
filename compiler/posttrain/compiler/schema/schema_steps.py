"""Schemas of the relational data steps. The compiler checks their values again, against the columns."""

from posttrain.compiler.data.relational_steps import RELATIONAL_STEPS
from posttrain.compiler.schema.schema_choices import (
    extension_references,
    extensions_of_kind,
    parameter_definitions,
    single_key_schema,
)
from posttrain.compiler.schema.schema_declarations import Definitions, Schema, schema_ref
from posttrain.spec.extension import Catalog
from posttrain.spec.row_amounts import AMOUNT_SCHEMA

_SQL_SCHEMA: Schema = {"type": "string", "description": "An SQL expression over the columns."}
_COLUMN_SCHEMA: Schema = {"type": "string", "description": "A column name."}
_COLUMNS_SCHEMA: Schema = {
    "anyOf": [_COLUMN_SCHEMA, {"type": "array", "items": _COLUMN_SCHEMA, "minItems": 1}]
}
_AMOUNT_SCHEMA: Schema = AMOUNT_SCHEMA


def _mapping_of(value: Schema) -> Schema:
    return {"type": "object", "additionalProperties": value, "minProperties": 1}


_STEP_SCHEMAS: dict[str, Schema] = {
    "where": {**_SQL_SCHEMA, "examples": ["length(answer) <= 3"]},
    "derive": {**_mapping_of(_SQL_SCHEMA), "examples": [{"question": "trim(prompt)"}]},
    "select": {**_COLUMNS_SCHEMA, "examples": [["prompt", "answer"]]},
    "rename": {**_mapping_of({"type": "string"}), "examples": [{"solution": "answer"}]},
    "sort": {**_SQL_SCHEMA, "examples": ["length(prompt) desc"]},
    "dedup": {"anyOf": [*_COLUMNS_SCHEMA["anyOf"], {"type": "null"}], "examples": [["prompt"]]},
    "sample": {**_AMOUNT_SCHEMA, "examples": [1000, 0.1, "25%"]},
    "join": {
        "type": "object",
        "properties": {
            "with": {"type": "string", "description": "The other dataset."},
            "on": {**_COLUMNS_SCHEMA, "description": "The columns to match."},
            "kind": {
                "type": "string",
                "enum": ["inner", "left"],
                "default": "inner",
                "description": "Join type: inner drops rows without a match, left keeps them.",
            },
        },
        "required": ["with", "on"],
        "additionalProperties": False,
        "examples": [{"with": "other", "on": ["id"]}],
    },
    "mix": {**_mapping_of(_AMOUNT_SCHEMA), "examples": [{"other": 0.5}, {"other": 2000}]},
    "split": {
        **_mapping_of(_AMOUNT_SCHEMA),
        "properties": {
            "group_by": {
                **_COLUMNS_SCHEMA,
                "description": "Columns whose groups stay together: rows that are equal in them are in one"
                " part. Default: only rows that are equal in every column.",
            }
        },
        "examples": [{"test": 200}],
    },
}


def step_definitions(catalog: Catalog) -> Definitions:
    """`step`, and the definitions of the relational steps and of the catalog's data steps."""
    found = {f"data.{name}": _relational_step_schema(name) for name in RELATIONAL_STEPS}
    for extension in extensions_of_kind("data", catalog).values():
        found |= parameter_definitions("data", extension)
    named = {name: schema_ref(f"data.{name}") for name in RELATIONAL_STEPS} | extension_references(
        "data", catalog
    )
    return {**found, "step": single_key_schema(named, "A data step: its name and its parameters.")}


def _relational_step_schema(name: str) -> Schema:
    says = " ".join((RELATIONAL_STEPS[name].__doc__ or "").split())
    # A step without a schema here accepts any value; the compiler still checks it.
    return {**_STEP_SCHEMAS.get(name, {}), "description": says}
