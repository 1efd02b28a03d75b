"""The large recipes of perf/cli_startup.py are valid."""

import importlib
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.recipe_command import ROOT

from posttrain.cli.main import main


@pytest.mark.parametrize(("writer", "size"), [("write_chain_recipe", 3), ("write_matrix_recipe", 50)])
def test_large_recipes_are_valid(
    writer: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "perf")  # as in a run of the benchmark
    recipe = getattr(importlib.import_module("large_recipes"), writer)(tmp_path, size)
    result = CliRunner().invoke(main, ["validate", str(recipe)])
    assert result.exit_code == 0, result.output
