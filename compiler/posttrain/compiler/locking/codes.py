"""The diagnostic about locks."""

from posttrain.compiler.diagnosis.examples import MINIMAL, minimal
from posttrain.spec.diagnostic import Code
from posttrain.spec.lockfile import to_text

STALE = Code(
    "PT0141",
    "a lock that is not up to date",
    "error",
    "`recipe.lock` says what the recipe's names stood for when it was locked: the commits of models and"
    " datasets on the hub, the digests of files and images, the versions of the libraries. With --locked,"
    " these are what is used, and nothing is run that the lock does not speak of, or speaks of otherwise."
    " `recipe lock` brings it up to date: look at what changed in it before you commit it.",
    wrong=minimal(
        ("    init: {family: qwen2, layers: 2, hidden: 64, heads: 4}\n", "    from: Qwen/Qwen2.5-0.5B\n"),
        ("    tokenizer: {init: characters}\n", ""),
    ),
    right=MINIMAL,
    beside=(("recipe.lock", to_text({})),),
)
CODES = (STALE,)
