"""Checks that no URL with a password reaches the plan, which is stored, shared and shown in reports."""

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.parsing.typed_recipe import TypedRecipe
from posttrain.compiler.text.yaml_tree import ScalarNode, node_at, walk_nodes
from posttrain.spec.diagnostic import Code
from posttrain.spec.url_passwords import url_passwords

_STAGE = "\n  fetch: {script: [curl, 'https://%sexample.com'], network: true}\n"
PASSWORD_IN_URL = Code(
    "PT0912",
    "password in a URL",
    "error",
    "A recipe must not contain a secret: its plan is stored with every run, can be shared, and is shown in"
    " reports. Let the program read the password from an environment variable or from a file.",
    wrong=minimal_recipe(("\nstages:", "\nstages:" + (_STAGE % "me:secret@").rstrip())),
    right=minimal_recipe(("\nstages:", "\nstages:" + (_STAGE % "").rstrip())),
)
CODES = (PASSWORD_IN_URL,)


def check_passwords(recipe: TypedRecipe, diagnostics: Diagnostics) -> None:
    """Report URLs with a password in the stages and in the description."""
    for section in ("description", "stages"):
        found, taken = node_at(recipe.root, (section,))
        for path, node in walk_nodes(found, (section,)) if taken else ():
            if isinstance(node, ScalarNode) and isinstance(node.value, str) and url_passwords(node.value):
                message = "a recipe must not contain a password"
                diagnostics.add(PASSWORD_IN_URL, path, message, help=_HELP, secret=True)


_HELP = "let the program read it from an environment variable or a file"
