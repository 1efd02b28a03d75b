"""Checks that the trackers under `tracking` exist."""

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.parsing.typed_recipe import TypedRecipe
from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.spec.diagnostic import Code
from posttrain.spec.suggestions import hint

UNKNOWN_TRACKER = Code(
    "PT0911",
    "unknown tracker",
    "error",
    "`tracking` lists the trackers that receive the metrics of a run: trackers that come with posttrain, or"
    " that an installed package adds. An empty list disables tracking.",
    wrong=minimal_recipe(("datasets:", "tracking: [tensorbord]\ndatasets:")),
    right=minimal_recipe(("datasets:", "tracking: [tensorboard]\ndatasets:")),
)
CODES = (UNKNOWN_TRACKER,)


def check_tracking(recipe: TypedRecipe, request: CompileRequest, diagnostics: Diagnostics) -> None:
    if "tracking" not in recipe.root.entries:
        return
    for index, name in enumerate(recipe.tracking):
        if not request.catalog.has("tracker", name):
            help, meant = hint(name, request.catalog.names("tracker"), what="trackers")
            message = f"there is no tracker `{name}`"
            diagnostics.add(UNKNOWN_TRACKER, ("tracking", index), message, help=help, replace=meant)
