"""Hypothesis strategies for YAML in many styles, for properties that hold for every style."""

from hypothesis import strategies as st

PLAIN_SCALARS = [
    "a",
    "b1",
    "c-d",
    "sums.train",
    "<answer>",
    "1e-5",
    "no",
    "012",
    "é",
    "日本",
    "x y",
    "2.0",
    "true",
    "~",
]
QUOTED_SCALARS = [
    "it's",
    'say "hi"',
    "a: b",
    "# no comment",
    "",
    " padded ",
    "tab\\t",
    "${vars.n}",
    "2020-01-01",
    "*",
    "&x",
]

scalars = st.sampled_from(PLAIN_SCALARS) | st.sampled_from(QUOTED_SCALARS).map(lambda text: ("quoted", text))
keys = st.sampled_from(
    ["name", "stages", "models", "vars", "k", "a key", "x-1", "from", "recipe", "profiles"]
)
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=20,
)
mappings = st.dictionaries(keys, trees, min_size=1, max_size=6)


@st.composite
def documents(draw: st.DrawFn) -> str:
    """A mapping with random quotes, flow style, comments, indentation and empty lines."""
    lines = draw(
        st.lists(st.sampled_from(["# top", "", "---", "# yaml-language-server: x"]), max_size=2, unique=True)
    )
    lines = [line for line in lines if line != "---"] + ["---"] * ("---" in lines)
    return "\n".join([*lines, *_block(draw, draw(mappings), 0), *_comments(draw, 0)]) + "\n"


def _block(draw: st.DrawFn, tree: object, indent: int) -> list[str]:
    lines: list[str] = []
    pad, step = " " * indent, draw(st.integers(1, 4))
    if isinstance(tree, dict):
        for key, value in tree.items():
            lines += [
                *_comments(draw, indent),
                *_entry(draw, f"{pad}{_word(draw, key)}:", value, indent, step),
            ]
        return lines
    assert isinstance(tree, list), "a word is no block"
    for value in tree:
        lines += [*_comments(draw, indent), *_entry(draw, f"{pad}-", value, indent, step)]
    return lines


def _entry(draw: st.DrawFn, head: str, value: object, indent: int, step: int) -> list[str]:
    trail = draw(st.sampled_from(["", "", "", " # said", "     # far"]))
    if isinstance(value, dict | list) and value and draw(st.booleans()):
        return [head + trail, *_block(draw, value, indent + step)]
    space = " " * draw(st.integers(1, 3))
    if isinstance(value, str) and draw(st.integers(0, 9)) == 0:
        return [
            f"{head}{space}|{draw(st.sampled_from(['', '-', '+']))}",
            f"{' ' * (indent + step)}{value}",
            "",
        ]
    return [f"{head}{space}{_flow(draw, value, indent + step)}{trail}"]


def _flow(draw: st.DrawFn, value: object, indent: int) -> str:
    comma = draw(st.sampled_from([", ", ",", f",\n{' ' * indent}", f", # why\n{' ' * indent}"]))
    if isinstance(value, list):
        return "[" + comma.join(_flow(draw, item, indent) for item in value) + "]"
    if isinstance(value, dict):
        pairs = [f"{_word(draw, key)}: {_flow(draw, item, indent)}" for key, item in value.items()]
        return "{" + comma.join(pairs) + "}"
    return _word(draw, value)


def _word(draw: st.DrawFn, value: object) -> str:
    if isinstance(value, tuple):
        text = str(value[1])
        single = "'" + text.replace("'", "''") + "'"
        return draw(st.sampled_from([single, '"' + text.replace('"', '\\"') + '"']))
    return draw(st.sampled_from([str(value), str(value), f"'{value}'"]))


def _comments(draw: st.DrawFn, indent: int) -> list[str]:
    choices = ["", "# own", f"{' ' * indent}# here", f"{' ' * (indent + 2)}# deeper"]
    return draw(st.lists(st.sampled_from(choices), max_size=2)) if draw(st.integers(0, 3)) == 0 else []
