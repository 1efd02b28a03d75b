"""`recipe validate --format`: the same diagnostics as text, JSON, GitHub annotations and SARIF."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from tests.compiler.render.diagnostic_cases import CASES, NAMES, make_error, span_at
from tests.recipe_command import RECIPE_COMMAND, run_command

from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE
from posttrain.compiler.diagnostic_codes import all_codes
from posttrain.compiler.render.sarif import render_sarif
from posttrain.compiler.render.text_diagnostics import Styler, render_text

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
WRONG = MINIMAL_RECIPE.replace("epochs: 1", "epoch: 1").replace("{train: sft", "{train: stf")


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    (tmp_path / "recipe.yaml").write_text(WRONG)
    return tmp_path


def test_text_goes_to_standard_error(wrong: Path) -> None:
    ended = run_command("validate", wrong)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "error[PT0601]" in ended.stderr
    assert "\x1b" not in ended.stderr  # colors are for terminals


def run_in_terminal(*arguments: str | Path, columns: int = 100, **more: str) -> str:
    """The standard error of a command if it is a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    env = {key: value for key, value in os.environ.items() if key != "NO_COLOR"} | {"TERM": "xterm"} | more
    command = [*RECIPE_COMMAND, *map(str, arguments)]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=theirs, check=False, env=env)
    os.close(theirs)
    output = b""
    while piece := read(ours):
        output += piece
    os.close(ours)
    return output.decode().replace("\r\n", "\n")


def read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other side is closed and everything is read
        return b""


def test_a_terminal_gets_colors_unless_disabled(wrong: Path) -> None:
    plain = run_command("validate", wrong).stderr
    coloured = run_in_terminal("validate", wrong)
    assert "\x1b[1;31merror[PT0601]\x1b[0m" in coloured
    assert ESCAPE.sub("", coloured) == plain
    assert run_in_terminal("validate", wrong, NO_COLOR="1") == plain
    assert run_in_terminal("validate", wrong, TERM="dumb") == plain


def test_long_lines_fit_the_terminal(wrong: Path) -> None:
    narrow = ESCAPE.sub("", run_in_terminal("validate", wrong, columns=60))
    shown = [line for line in narrow.splitlines() if " | " in line]
    assert shown
    assert all(len(line) <= 60 for line in shown)
    assert any(line.endswith("...") for line in shown)


def test_json_has_the_same(wrong: Path) -> None:
    ended = run_command("validate", "--format", "json", "recipe.yaml", cwd=wrong)
    assert (ended.returncode, ended.stderr) == (1, "")
    document = json.loads(ended.stdout)
    assert document["counts"]["error"] == len(document["diagnostics"]) > 0
    (method,) = [found for found in document["diagnostics"] if found["code"] == "PT0601"]
    assert method["span"]["file"] == "recipe.yaml"
    line = WRONG.splitlines()[method["span"]["line"] - 1]
    assert line[method["span"]["column"] - 1 : method["span"]["end_column"] - 1] == "stf"
    assert method["edits"] == [{"span": method["span"], "text": "sft"}]


def test_github_annotates(wrong: Path) -> None:
    ended = run_command("validate", "--format", "github", "recipe.yaml", cwd=wrong)
    assert ended.returncode == 1
    assert all(line.startswith("::error file=recipe.yaml,line=") for line in ended.stdout.splitlines())


@pytest.mark.parametrize("form", ["json", "github", "sarif"])
def test_a_good_recipe_gives_an_empty_document(form: str, tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(MINIMAL_RECIPE)
    ended = run_command("validate", "--format", form, tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    if form == "json":
        assert json.loads(ended.stdout)["diagnostics"] == []
    elif form == "sarif":
        assert json.loads(ended.stdout)["runs"][0]["results"] == []
    else:
        assert ended.stdout == ""


def test_plan_gives_diagnostics_in_any_form(wrong: Path) -> None:
    ended = run_command("plan", "--diagnostics", "json", wrong)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert json.loads(ended.stderr)["counts"]["error"] > 0


def test_the_log_is_good_sarif(sarif_schema: Path, wrong: Path) -> None:
    check = jsonschema.Draft7Validator(json.loads(sarif_schema.read_text()))
    ended = run_command("validate", "--format", "sarif", "recipe.yaml", "--set", "seed=x", cwd=wrong)
    assert ended.returncode == 1
    log = json.loads(ended.stdout)
    assert [error.message for error in check.iter_errors(log)] == []
    run = log["runs"][0]
    assert {result["ruleId"] for result in run["results"]} == {
        rule["id"] for rule in run["tool"]["driver"]["rules"]
    }
    assert any("fixes" in result for result in run["results"])
    run["results"][0]["level"] = "dreadful"  # the schema rejects this value
    assert list(check.iter_errors(log)) != []


def test_logs_of_every_shape_are_good_sarif(sarif_schema: Path) -> None:
    check = jsonschema.Draft7Validator(json.loads(sarif_schema.read_text()))
    codes = {code.id: code for code in all_codes()}
    log = json.loads(render_sarif(tuple(CASES.values()), NAMES, codes, "recipes/demo/recipe.yaml"))
    assert [error.message for error in check.iter_errors(log)] == []


@pytest.fixture
def many_errors(tmp_path: Path) -> Path:
    keys = "".join(f"wrong{number}: 1\n" for number in range(150))
    (tmp_path / "recipe.yaml").write_text(MINIMAL_RECIPE + keys)
    return tmp_path


def test_at_most_100_diagnostics_are_printed(many_errors: Path) -> None:
    ended = run_command("validate", many_errors)
    assert ended.stderr.count("error[PT0201]") == 100
    assert "\n50 more are not shown; `recipe validate --max-diagnostics 0` shows all\n" in ended.stderr
    assert ended.stderr.endswith("150 errors\n")
    assert run_command("plan", many_errors, "--max-diagnostics", "7").stderr.count("error[") == 7
    assert run_command("run", many_errors).stderr.count("error[") == 100
    every = run_command("validate", many_errors, "--max-diagnostics", "0").stderr
    assert (every.count("error["), "not shown" in every) == (150, False)
    document = run_command("validate", many_errors, "--format", "json")
    assert len(json.loads(document.stdout)["diagnostics"]) == 150


def test_errors_are_printed_before_warnings() -> None:
    found = [
        replace(make_error(f"number {number}", span_at(1 + number, 1, 2)), severity=severity)
        for number, severity in enumerate(("warning", "error", "warning", "error"))
    ]
    shown = render_text(found, {}, {}, Styler(), limit=3)
    assert [f"number {number}" in shown for number in range(4)] == [True, True, False, True]


PROFILES = "profiles:\n  sound: {seed: 3}\n  smoke: {stages: {sft: {params: {epoch: 2}}}}\n"


@pytest.fixture
def wrong_profile(tmp_path: Path) -> Path:
    (tmp_path / "recipe.yaml").write_text(MINIMAL_RECIPE + PROFILES)
    return tmp_path


def test_each_format_names_the_profiles_of_a_diagnostic(wrong_profile: Path) -> None:
    shown = {
        form: run_command("validate", wrong_profile, "--format", form)
        for form in ("text", "json", "github", "sarif")
    }
    assert {ended.returncode for ended in shown.values()} == {1}
    assert "= note: in the profile `smoke`\n" in shown["text"].stderr
    (found,) = json.loads(shown["json"].stdout)["diagnostics"]
    assert found["profiles"] == ["smoke"]
    assert "in the profile `smoke`" in shown["github"].stdout
    (result,) = json.loads(shown["sarif"].stdout)["runs"][0]["results"]
    assert result["properties"] == {"profiles": ["smoke"]}
    assert "in the profile `smoke`" in result["message"]["text"]


def test_a_plan_reports_the_errors_of_profiles_that_it_does_not_apply(wrong_profile: Path) -> None:
    ended = run_command("plan", wrong_profile, "--home", wrong_profile / "home")
    assert ended.returncode == 1
    assert "unknown key `epoch`" in ended.stderr
    assert "sft" in ended.stdout  # the plan of the recipe without a profile


def test_a_run_checks_what_it_runs(wrong_profile: Path) -> None:
    ended = run_command(
        "run", wrong_profile, "--profile", "sound", "--only", "sums", "--home", wrong_profile / "home"
    )
    assert "epoch" not in ended.stderr
