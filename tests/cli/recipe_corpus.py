"""All recipe files of the project, and the examples of all diagnostics."""

from pathlib import Path

from tests.recipe_command import ROOT

from posttrain.cli import new
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnostic_codes import all_codes
from posttrain.compiler.parsing.parse import parse
from posttrain.compiler.text.compile_request import SourceFile
from posttrain.compiler.text.yaml_tree import MappingNode

STARTERS = Path(new.__file__).parent / "starters"
RECIPES = sorted(
    path
    for path in (*ROOT.glob("recipes/**/recipe.yaml"), *ROOT.glob("tests/recipes/**/recipe.yaml"))
    if ".recipe" not in path.parts
) + sorted(STARTERS.glob("*/recipe.yaml"))
# Files that other recipes extend; not complete recipes.
OVERLAYS = sorted(path for path in ROOT.glob("recipes/*/*.yaml") if path.name != "recipe.yaml")
CORRECT_EXAMPLES = {code.id: code.right for code in all_codes()}


def path_id(path: Path) -> str:
    return "/".join(path.parts[-3:])


def parse_tree(text: str) -> MappingNode | None:
    """The tree of a text, or None if it is not YAML with a mapping at the top level."""
    diagnostics = Diagnostics()
    tree = parse(SourceFile("recipe.yaml", text.encode()), diagnostics)
    return None if diagnostics.has_errors else tree
