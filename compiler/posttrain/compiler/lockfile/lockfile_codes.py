"""The diagnostic code of lockfiles."""

from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_INIT, MINIMAL_RECIPE, minimal_recipe
from posttrain.spec.diagnostic import Code
from posttrain.spec.lockfile import format_lock

STALE_LOCK = Code(
    "PT0141",
    "invalid or outdated lockfile",
    "error",
    "`recipe.lock` pins everything that a recipe names: the commits of models and datasets on the hub, the"
    " digests of files and images, the versions of libraries. With --locked, a run uses exactly these"
    " versions, and it is an error if an entry is missing or differs. `recipe lock` updates the lockfile:"
    " review the changes before you commit it.",
    wrong=minimal_recipe(
        (
            MINIMAL_INIT,
            "    from: Qwen/Qwen2.5-0.5B\n",
        ),
        ("    tokenizer: {init: characters}\n", ""),
    ),
    right=MINIMAL_RECIPE,
    files=(("recipe.lock", format_lock({})),),
)
CODES = (STALE_LOCK,)
