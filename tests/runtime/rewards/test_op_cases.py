"""The results of ops for the rows of `cases.yaml`, which must include every text op."""

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from tests.runtime.rewards.reward_compilation import compiled_graph, evaluate_graph

from posttrain.runtime.catalog import CATALOG

CASES = YAML(typ="safe").load(Path(__file__).with_name("cases.yaml").read_text(encoding="utf-8"))
READS = {"completion": "text", "of": "text", "to": "text"}


@pytest.mark.parametrize("case", CASES, ids=[str(next(iter(case["node"]))) for case in CASES])
def test_an_op_gives_what_its_cases_say(case: dict[str, Any]):
    rows = case["rows"]
    wide = len(rows[0]) == 3
    graph = compiled_graph(
        {"reads": READS, "nodes": {"node": case["node"]}, "returns": {"length": "completion"}}
    )
    columns = {
        "completion": [""] * len(rows),
        "of": [row[0] for row in rows],
        "to": [row[1] if wide else "" for row in rows],
    }
    found = evaluate_graph(graph, columns).values["node"]
    expected = [row[-1] for row in rows]
    assert found == expected
    assert [type(one) for one in found] == [type(one) for one in expected]


def test_every_op_that_looks_at_text_has_cases():
    looked = {str(next(iter(case["node"]))) for case in CASES}
    combining = {
        "sum",
        "weighted",
        "product",
        "min",
        "max",
        "mean",
        "clip",
        "scale",
        "score",
        "gate",
        "cases",
        "thresholds",
        "all",
        "any",
        "not",
        "compare",
        "normalize",
        "ramp",
    }
    elsewhere = {"python", "judge", "reasoning_gym", "code_tests", "environment", "language", "reward_model"}
    elsewhere |= {"tokens"}
    assert looked | combining | elsewhere == set(CATALOG.names("reward"))
