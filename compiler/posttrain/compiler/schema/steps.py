"""What the relational data steps take. Their functions check it again, against the rows they get."""

from posttrain.compiler.data.relational import RELATIONAL
from posttrain.compiler.schema.choices import choice, extensions, open_choice, parameters
from posttrain.compiler.schema.models import Definitions, Schema, reference
from posttrain.spec.extension import Catalog

_SQL: Schema = {"type": "string", "description": "An SQL expression over the columns."}
_COLUMN: Schema = {"type": "string", "description": "A column."}
_COLUMNS: Schema = {"anyOf": [_COLUMN, {"type": "array", "items": _COLUMN, "minItems": 1}]}
_AMOUNT: Schema = {
    "type": "number",
    "exclusiveMinimum": 0,
    "description": "A number of rows, or a share of them below 1.",
}


def _each(value: Schema) -> Schema:
    return {"type": "object", "additionalProperties": value, "minProperties": 1}


_FORMS: dict[str, Schema] = {
    "where": {**_SQL, "examples": ["length(answer) <= 3"]},
    "derive": {**_each(_SQL), "examples": [{"question": "trim(prompt)"}]},
    "select": {**_COLUMNS, "examples": [["prompt", "answer"]]},
    "rename": {**_each({"type": "string"}), "examples": [{"solution": "answer"}]},
    "sort": {**_SQL, "examples": ["length(prompt) desc"]},
    "dedup": {"anyOf": [*_COLUMNS["anyOf"], {"type": "null"}], "examples": [["prompt"]]},
    "sample": {**_AMOUNT, "examples": [1000, 0.1]},
    "join": {
        "type": "object",
        "properties": {
            "with": {"type": "string", "description": "The other dataset."},
            "on": {**_COLUMNS, "description": "The columns that must agree."},
            "kind": {
                "type": "string",
                "enum": ["inner", "left"],
                "default": "inner",
                "description": "Whether rows without a partner are dropped or kept.",
            },
        },
        "required": ["with", "on"],
        "additionalProperties": False,
        "examples": [{"with": "other", "on": ["id"]}],
    },
    "mix": {**_each(_AMOUNT), "examples": [{"other": 0.5}]},
    "split": {**_each(_AMOUNT), "examples": [{"test": 200}]},
}


def step_definitions(catalog: Catalog) -> Definitions:
    """`step`, which is one of the relational steps or one of the catalog's, and all these."""
    found = {f"data.{name}": _relational(name) for name in RELATIONAL}
    for extension in extensions("data", catalog).values():
        found |= parameters("data", extension)
    named = {name: reference(f"data.{name}") for name in RELATIONAL} | open_choice("data", catalog)
    return {**found, "step": choice(named, "A data step: its name, and what it takes.")}


def _relational(name: str) -> Schema:
    says = " ".join((RELATIONAL[name].__doc__ or "").split())
    # A step whose form is not told here takes anything: the compiler still checks it.
    return {**_FORMS.get(name, {}), "description": says}
