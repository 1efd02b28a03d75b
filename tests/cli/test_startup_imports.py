"""The commands import no heavy modules that they do not need."""

import os
import subprocess
import sys

import click
import pytest
from tests.recipe_command import ROOT

from posttrain.cli.main import main

HEAVY = {
    "torch",
    "transformers",
    "trl",
    "datasets",
    "docker",
    "httpcore",
    "httpx",
    "numpy",
    "pydantic",
    "pyarrow",
    "rich",
    "jsonschema",
    "requests",
    "sqlite3",
}


RECIPE = str(ROOT / "recipes" / "quickstart")
COMMANDS = [
    ("validate", RECIPE),
    ("plan", RECIPE),
    ("--help",),
    ("plan", "--help"),
    ("status", "--format", "json", "--home", "/nonexistent"),
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_nothing_heavy_is_imported(arguments: tuple[str, ...]) -> None:
    imported = imported_modules(["-m", "posttrain.cli.main", *arguments], {})
    assert "click" in imported
    needed = {"sqlite3"} if arguments[0] in ("plan", "status") else set[str]()
    compiles = RECIPE in arguments
    assert not imported & (HEAVY - needed - ({"pydantic"} if compiles else set()))


def test_a_recipe_with_endpoints_imports_no_client() -> None:
    recipe = str(ROOT / "recipes" / "data-factory")
    program = f"""
import sys
from click.testing import CliRunner
from posttrain.cli.main import main
result = CliRunner().invoke(main, ["validate", {recipe!r}])
assert result.exit_code == 0, result.output
assert "posttrain.runtime.engines.http" in sys.modules
clients = ("batch_client", "endpoint_client", "http_generator", "transport")
print(*(name for name in clients if f"posttrain.runtime.engines.{{name}}" in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_options_of_a_command_are_read_without_pydantic() -> None:
    program = f"""
import sys
from click.testing import CliRunner
from posttrain.cli.main import main
for name in {list(main.list_commands(click.Context(main)))}:
    result = CliRunner().invoke(main, [name, "--help"])
    assert result.exit_code == 0, result.output
    assert "pydantic" not in sys.modules, name
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_shell_completion_imports_nothing_heavy() -> None:
    program = "import sys; sys.argv[0] = 'recipe'; from posttrain.cli.main import main; main()"
    asked = {"_RECIPE_COMPLETE": "bash_complete", "COMP_WORDS": "recipe pl", "COMP_CWORD": "1"}
    imported = imported_modules(["-c", program], asked)
    assert "click" in imported
    assert not imported & (HEAVY - {"sqlite3"})


def imported_modules(arguments: list[str], environment: dict[str, str]) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env={**os.environ, **environment},
    )
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}


def test_httpx_is_imported_only_when_an_endpoint_is_called() -> None:
    program = """
import sys
from posttrain.runtime.engines.http_generator import HttpGenerator
from posttrain.runtime.rewards.ops import judge
HttpGenerator({"provider": "openai", "model": "m", "api_key": None, "concurrency": 1})
print(*sorted({"httpx", "httpcore", "requests"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
