"""Machine-readable diagnostics: JSON, GitHub annotations and SARIF."""

import json
import re
from pathlib import Path

from tests.compiler.render.diagnostic_cases import CASES, NAMES
from tests.compiler.render.golden_files import assert_matches_golden

from posttrain.compiler.diagnostic_codes import all_codes
from posttrain.compiler.render.github_annotations import render_github
from posttrain.compiler.render.json_diagnostics import render_json
from posttrain.compiler.render.sarif import render_sarif
from posttrain.spec.diagnostic import Diagnostic, Span

GOLDEN = Path(__file__).parent / "golden"
CODES = {code.id: code for code in all_codes()}
RECIPE = "recipes/demo/recipe.yaml"
FOUND = tuple(CASES.values())
COMMAND = re.compile(r"::(error|warning|notice) ([^:]*)::(.*)")


def test_json_is_as_reviewed() -> None:
    assert_matches_golden(GOLDEN / "diagnostics.json", render_json(FOUND, NAMES))


def test_json_of_nothing_is_a_document_too() -> None:
    counts = {"error": 0, "warning": 0, "note": 0}
    assert json.loads(render_json((), {})) == {"version": 1, "diagnostics": [], "counts": counts}


def test_github_is_as_reviewed() -> None:
    assert_matches_golden(GOLDEN / "github.txt", render_github(FOUND, NAMES, CODES, RECIPE))


def test_a_github_command_survives_any_text() -> None:
    span = Span("a,b:c%d\n.yaml", 3, 1, 3, 2)
    found = Diagnostic("PT0201", "error", "100 %: x::y, z\r\nend", span)
    (line,) = render_github([found], {}, CODES, RECIPE).splitlines()
    match = COMMAND.fullmatch(line)
    assert match is not None
    properties = dict(pair.split("=", 1) for pair in match[2].split(","))
    assert properties["file"] == "a%2Cb%3Ac%25d%0A.yaml"
    assert match[3] == "100 %25: x::y, z%0D%0Aend"


def test_what_is_wrong_with_an_option_is_shown_at_the_recipe() -> None:
    (line,) = render_github([CASES["an option"]], NAMES, CODES, RECIPE).splitlines()
    assert line.startswith(f"::error file={RECIPE},line=1,title=")
    assert "at --set seed" in line
    log = json.loads(render_sarif([CASES["an option"]], NAMES, CODES, RECIPE))
    (result,) = log["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == RECIPE
    assert "--set seed" in result["message"]["text"]


def test_sarif_is_as_reviewed() -> None:
    log = json.loads(render_sarif(FOUND, NAMES, CODES, RECIPE))
    for rule in log["runs"][0]["tool"]["driver"]["rules"]:
        assert rule["help"]["markdown"].startswith(f"# {rule['id']}")
        assert rule["fullDescription"]["text"] == CODES[rule["id"]].page
        del rule["help"], rule["fullDescription"]  # the pages have their own tests
    assert_matches_golden(GOLDEN / "sarif.json", json.dumps(log, indent=1) + "\n")


def test_a_path_becomes_a_uri() -> None:
    found = Diagnostic("PT0201", "error", "m", Span("é x#1.yaml", 1, 1, 1, 2))
    log = json.loads(render_sarif([found], {}, CODES, RECIPE))
    (result,) = log["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "%C3%A9%20x%231.yaml"
