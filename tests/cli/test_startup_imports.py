"""`recipe validate` and `recipe plan` import no heavy modules."""

import subprocess
import sys

import pytest
from tests.recipe_command import ROOT

HEAVY = {
    "torch",
    "transformers",
    "trl",
    "datasets",
    "docker",
    "httpcore",
    "httpx",
    "numpy",
    "pyarrow",
    "rich",
    "jsonschema",
    "requests",
    "sqlite3",
}


@pytest.mark.parametrize("verb", ["validate", "plan"])
def test_nothing_heavy_is_imported(verb: str) -> None:
    command = [
        sys.executable,
        "-X",
        "importtime",
        "-m",
        "posttrain.cli.main",
        verb,
        ROOT / "recipes" / "quickstart",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/")
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "ruamel" in imported
    assert not imported & (HEAVY - ({"sqlite3"} if verb == "plan" else set()))


def test_httpx_is_imported_only_when_an_endpoint_is_called() -> None:
    program = """
import sys
from posttrain.runtime.engines.http import HttpGenerator
from posttrain.runtime.rewards.ops import judge
HttpGenerator({"provider": "openai", "model": "m", "api_key": None, "concurrency": 1})
print(*sorted({"httpx", "httpcore", "requests"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
