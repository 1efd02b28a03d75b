"""The commands import no heavy modules that they do not need."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from tests.recipe_command import ROOT, run_command
from tests.runtime.scripts_recipe import RECIPE as SCRIPTS_RECIPE
from tests.runtime.scripts_recipe import run_text

from posttrain.cli.main import main
from posttrain.runtime.store.home import Home

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
    ("ui", "--help"),
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


def test_validate_computes_no_plan() -> None:
    program = f"""
import sys
from click.testing import CliRunner
from posttrain.cli.main import main
result = CliRunner().invoke(main, ["validate", {RECIPE!r}])
assert result.exit_code == 0, result.output
print(*(name for name in sys.modules if ".lowering" in name or name.endswith(".params_by_kind")))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a finished run."""
    folder = tmp_path_factory.mktemp("finished")
    run_text(folder, SCRIPTS_RECIPE, Home(folder / "home"))
    return folder / "home"


@pytest.mark.parametrize(
    "arguments",
    [("status",), ("status", "--format", "json"), ("runs",), ("logs", "count"), ("path", "count")],
    ids=" ".join,
)
def test_commands_that_show_a_finished_run_import_no_pydantic(
    arguments: tuple[str, ...], finished: Path
) -> None:
    assert run_command(*arguments, "--home", finished).returncode == 0
    imported = imported_modules(["-m", "posttrain.cli.main", *arguments, "--home", str(finished)], {})
    assert "click" in imported
    assert not imported & (HEAVY - {"sqlite3", "rich"})


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
