"""Tests that every operand of every reward op has a description, on its page and in the editor schema."""

from collections.abc import Iterator, Mapping

import pytest

from posttrain.compiler.schema.schema_nodes import node_definitions
from posttrain.runtime.catalog import CATALOG
from posttrain.spec.extension import Operand, RewardOp

OPS = CATALOG.names("reward")


def operands(name: str) -> Mapping[str, Operand]:
    op = CATALOG.find("reward", name)
    assert isinstance(op, RewardOp)
    return op.operands


def nested_operands(name: str, given: Mapping[str, Operand]) -> Iterator[tuple[str, Operand]]:
    for key, operand in given.items():
        yield f"{name}.{key}", operand
        yield from nested_operands(f"{name}.{key}", operand.fields)


@pytest.mark.parametrize("name", OPS)
def test_every_operand_is_described_in_a_sentence(name: str) -> None:
    for place, operand in nested_operands(name, operands(name)):
        assert operand.description[:1].isupper(), f"{place} has no description"
        assert operand.description.endswith("."), f"{place} ends without a full stop"


@pytest.mark.parametrize("name", OPS)
def test_the_schema_for_editors_has_it(name: str) -> None:
    made = node_definitions(CATALOG)[f"reward.{name}"]
    full = next((one for one in made.get("anyOf", ()) if "properties" in one), made)
    for key, operand in operands(name).items():
        assert full["properties"][key]["description"] == operand.description
        rows = full["properties"][key].get("items", {}).get("properties", {})
        assert {k: row["description"] for k, row in rows.items()} == {
            k: inner.description for k, inner in operand.fields.items()
        }
