"""Every recipe file that comes with the project, and the examples of every diagnostic."""

from pathlib import Path

from tests.recipe_command import ROOT

from posttrain.cli import new
from posttrain.compiler.codes import all_codes
from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.reading.parse import parse
from posttrain.compiler.text.source import Source
from posttrain.compiler.text.tree import Mapped

STARTERS = Path(new.__file__).parent / "starters"
RECIPES = sorted(
    path
    for path in (*ROOT.glob("recipes/**/recipe.yaml"), *ROOT.glob("tests/recipes/**/recipe.yaml"))
    if ".recipe" not in path.parts
) + sorted(STARTERS.glob("*/recipe.yaml"))
# Files that others extend: no recipes by themselves.
PARTS = sorted(path for path in ROOT.glob("recipes/*/*.yaml") if path.name != "recipe.yaml")
RIGHT = {code.id: code.right for code in all_codes()}


def name_of(path: Path) -> str:
    return "/".join(path.parts[-3:])


def tree_of(text: str) -> Mapped | None:
    """The tree of a text, or None when it is no YAML with a mapping at the top."""
    findings = Findings()
    tree = parse(Source("recipe.yaml", text.encode()), findings)
    return None if findings.failed else tree
