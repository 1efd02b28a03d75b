"""What a text may be wrong in before it is a tree, and how large a recipe may be."""

from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE, minimal_recipe
from posttrain.spec.diagnostic import Code

MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 64
MAX_NODES = 400_000

YAML_ERROR = Code(
    "PT0101",
    "the file is not YAML",
    "error",
    "The text breaks a rule of YAML, such as a bracket that is not closed, a tab used to indent, or"
    " a wrong indentation. A bracket that is not closed is taken as closed before the next line that begins a"
    " block, and the rest is checked; after any other slip nothing is until it is mended.",
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
    "a key is written twice",
    "error",
    "One mapping holds the same key twice. YAML readers keep one of them and drop the other in"
    " silence, so this is an error here. Keep one.",
    wrong=minimal_recipe(("name: demo", "name: demo\nname: again")),
    right=MINIMAL_RECIPE,
)
TOO_LARGE = Code(
    "PT0104",
    "the file is too large, too deep or expands without bound",
    "error",
    f"A recipe has at most {MAX_BYTES // 2**20} MiB, {MAX_DEPTH} levels and {MAX_NODES} nodes,"
    " counted after aliases are expanded. Data belongs in data files, which datasets name.",
    wrong=minimal_recipe(("name: demo", "name: " + "[" * 80 + "]" * 80)),
    right=MINIMAL_RECIPE,
)
NO_MAPPING = Code(
    "PT0105",
    "the file holds no recipe",
    "error",
    "A recipe is one YAML document whose top level is a mapping from section names to sections.",
    wrong="- recipe\n- 1\n",
    right=MINIMAL_RECIPE,
)
UNSUPPORTED = Code(
    "PT0106",
    "YAML tags and complex keys have no meaning in a recipe",
    "error",
    "Keys are words, and values have the types that the language gives them: tags such as `!!int` or"
    " `!custom`, and keys that are lists or mappings, are refused. The merge key `<<` takes mappings alone.",
    wrong=minimal_recipe(("name: demo", "name: !!str demo")),
    right=MINIMAL_RECIPE,
)
CODES = (YAML_ERROR, NOT_TEXT, DUPLICATE_KEY, TOO_LARGE, NO_MAPPING, UNSUPPORTED)
