"""Diagnostic codes of the parser, and the size limits of a recipe."""

from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE, minimal_recipe
from posttrain.spec.diagnostic import Code

MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 64
MAX_NODES = 400_000

YAML_ERROR = Code(
    "PT0101",
    "YAML syntax error",
    "error",
    "The text violates the YAML syntax: for example an unclosed bracket, a tab in the indentation or a wrong"
    " indentation. The compiler assumes that an unclosed bracket ends before the next line that starts a"
    " block, and checks the rest. After any other syntax error it checks nothing else: fix the error first.",
    wrong=minimal_recipe(("{init: characters}", "{init: characters")),
    right=MINIMAL_RECIPE,
)
NOT_TEXT = Code(
    "PT0102",
    "the file is not UTF-8 text",
    "error",
    "A recipe is UTF-8 text without control characters. Save the file as UTF-8.",
    wrong=minimal_recipe(("name: demo", "name: demo\x07")),
    right=MINIMAL_RECIPE,
)
DUPLICATE_KEY = Code(
    "PT0103",
    "duplicate key",
    "error",
    "A mapping contains the same key twice. Many YAML parsers silently drop one of the two values, so this is"
    " an error. Remove one of them.",
    wrong=minimal_recipe(("name: demo", "name: demo\nname: again")),
    right=MINIMAL_RECIPE,
)
TOO_LARGE = Code(
    "PT0104",
    "file too large or too deeply nested",
    "error",
    f"A recipe has at most {MAX_BYTES // 2**20} MiB, {MAX_DEPTH} levels and {MAX_NODES} nodes,"
    " counted after the expansion of aliases. Move data to files that `datasets` name.",
    wrong=minimal_recipe(("name: demo", "name: " + "[" * 80 + "]" * 80)),
    right=MINIMAL_RECIPE,
)
NO_MAPPING = Code(
    "PT0105",
    "not a recipe",
    "error",
    "A recipe is one YAML document whose top level is a mapping from section names to sections.",
    wrong="- recipe\n- 1\n",
    right=MINIMAL_RECIPE,
)
UNSUPPORTED = Code(
    "PT0106",
    "unsupported YAML feature",
    "error",
    "Recipes do not support tags such as `!!int` or `!custom`, nor keys that are lists or mappings. The"
    " type of a value is determined by its field. The merge key `<<` accepts only mappings.",
    wrong=minimal_recipe(("name: demo", "name: !!str demo")),
    right=MINIMAL_RECIPE,
)
CODES = (YAML_ERROR, NOT_TEXT, DUPLICATE_KEY, TOO_LARGE, NO_MAPPING, UNSUPPORTED)
