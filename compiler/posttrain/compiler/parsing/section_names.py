"""Checks the names of a recipe's sections, and recognizes configuration files of other tools.

Misspelled sections are corrected before all other passes, because `extends`, `profiles` and `vars` are
sections too.
"""

from collections.abc import Collection

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.key_suggestions import key_hint, key_location_hint, suggest_key
from posttrain.compiler.parsing.validation_diagnostics import UNKNOWN_KEY
from posttrain.compiler.text.yaml_tree import MappingNode, rename_key
from posttrain.spec.diagnostic import Code, Edit

FOREIGN_CONFIG = Code(
    "PT0107",
    "configuration file of another tool",
    "error",
    "The file has no sections of a recipe, but keys of axolotl, LLaMA-Factory or TRL. A recipe declares"
    " models and datasets, and its `stages` use them.",
    wrong="base_model: gpt2\nlearning_rate: 1.0e-4\nnum_epochs: 3\n",
    right="recipe: 1\nname: demo\nmodels: {base: {from: gpt2}}\nstages: {ship: {export: base}}\n",
)
CODES = (FOREIGN_CONFIG,)
_MAX_SHOWN = 8


def correct_sections(root: MappingNode, legal: Collection[str], diagnostics: Diagnostics) -> MappingNode:
    """The tree with corrected section names. Unknown sections are reported."""
    for key in [key for key in root.entries if key not in legal]:
        help, meant = key_hint(key, legal, what="sections")
        span = root.entries[key].key_span
        edit = Edit(span, meant) if meant else None
        diagnostics.add_at_span(UNKNOWN_KEY, span, f"unknown section `{key}`", help=help, edit=edit)
        corrected = rename_key(root, (key,), suggest_key(key, legal))
        assert isinstance(corrected, MappingNode)
        root = corrected
    return root


def is_foreign_config(root: MappingNode, legal: Collection[str], diagnostics: Diagnostics) -> bool:
    """Whether the file was written for another tool, which is reported once instead of key by key."""
    hints = {key: place for key in root.entries if key not in legal and (place := key_location_hint(key))}
    if len(hints) < 2:
        return False
    lines = [f"{key}: {place}" for key, place in list(hints.items())[:_MAX_SHOWN]]
    lines += [f"and {len(hints) - _MAX_SHOWN} more"] if len(hints) > _MAX_SHOWN else []
    help = "\n".join(
        ["`recipe new --list` lists recipes to start from; the keys of this file belong elsewhere:", *lines]
    )
    message = (
        f"this is not a recipe: it has no `recipe: 1` and no `stages`, but {len(hints)} keys of other tools"
    )
    diagnostics.add_at_span(FOREIGN_CONFIG, root.entries[next(iter(hints))].key_span, message, help=help)
    return True
