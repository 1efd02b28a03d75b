"""The diagnostic about locks."""

from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE, minimal_recipe
from posttrain.spec.diagnostic import Code
from posttrain.spec.lockfile import format_lock

STALE_LOCK = Code(
    "PT0141",
    "a lock that is not up to date",
    "error",
    "`recipe.lock` says what the recipe's names stood for when it was locked: the commits of models and"
    " datasets on the hub, the digests of files and images, the versions of the libraries. With --locked,"
    " these are what is used, and nothing is run that the lock does not speak of, or speaks of otherwise."
    " `recipe lock` brings it up to date: look at what changed in it before you commit it.",
    wrong=minimal_recipe(
        (
            "    init: {model_type: qwen2, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4}\n",
            "    from: Qwen/Qwen2.5-0.5B\n",
        ),
        ("    tokenizer: {init: characters}\n", ""),
    ),
    right=MINIMAL_RECIPE,
    files=(("recipe.lock", format_lock({})),),
)
CODES = (STALE_LOCK,)
