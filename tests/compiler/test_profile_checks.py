"""`validate` and `plan` check a recipe without a profile, with each profile, and with the selected ones."""

from dataclasses import replace
from pathlib import Path

import pytest

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE
from posttrain.compiler.parsing.parse import parse
from posttrain.compiler.pipeline import CompileResult, compile_recipe
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.compiler.text.yaml_tree import MappingNode, Node, walk_nodes
from posttrain.runtime.catalog import CATALOG

RECIPES = Path(__file__).parent.parent.parent / "recipes"
# The starts of findings: the place, the code and the profiles.
Found = list[tuple[str, str, tuple[str, ...]]]


def compile_text(
    text: str,
    profiles: tuple[str, ...] = (),
    overrides: tuple[tuple[str, str], ...] = (),
    files: dict[str, str] | None = None,
) -> CompileResult:
    named = files or {}
    request = CompileRequest(
        source=SourceFile("recipe.yaml", text.encode()),
        catalog=CATALOG,
        read=lambda name: named[name].encode() if name in named else None,
        profiles=profiles,
        overrides=overrides,
        check_profiles=True,
    )
    return compile_recipe(request)


def with_profiles(*profiles: str, base: str = MINIMAL_RECIPE) -> str:
    return base + "profiles:\n" + "".join(f"  {line}\n" for line in profiles)


def found_in(outcome: CompileResult) -> Found:
    return [(str(one.span), one.code, one.profiles) for one in outcome.diagnostics]


def place_of(text: str, word: str, file: str = "recipe.yaml") -> str:
    before = text[: text.index(word)]
    return f"{file}:{before.count(chr(10)) + 1}:{len(before) - (before.rfind(chr(10)) + 1) + 1}"


@pytest.mark.parametrize(
    ("overlay", "word", "code"),
    [
        ("{stages: {sft: {params: {epoch: 2}}}}", "epoch: 2", "PT0201"),
        ("{stages: {sft: {params: {batch_size: two}}}}", "two", "PT0203"),
        ("{stages: {sft: {params: {batch_size: -7}}}}", "-7", "PT0204"),
        ("{stages: {sft: {model: bsae}}}", "bsae", "PT0301"),
        ("{nonsense: 1}", "nonsense", "PT0201"),
        ("{stages: {sft: {parms: {epochs: 1}}}}", "parms", "PT0201"),
        ("{datasets: {sums: {from: {arithmetic: {count: 60}}}}}", "{test: 100}", "PT0406"),
        ('{datasets: {sums: {steps: [{where: length(nope) > 1}]}}}', "nope) >", "PT0403"),
        ('{stages: {sft: {params: {learning_rate: "${vars.rat}"}}}}', '"${vars.rat', "PT0121"),
        ('{matrix: {rate: [1.0e-4, high]}, stages: {sft: {params: {learning_rate: "${matrix.rate}"}}}}',
         '"${matrix.rate', "PT0203"),
        ("{hardware: {accelerator: h999}}", "h999", "PT1001"),
    ],
)  # fmt: skip
def test_an_error_of_a_profile_is_reported_where_it_is_written(overlay: str, word: str, code: str) -> None:
    text = with_profiles("sound: {seed: 3}", f"smoke: {overlay}")
    outcome = compile_text(text)
    assert (place_of(text, word), code, ("smoke",)) in found_in(outcome)
    assert outcome.plan is not None  # of the recipe without a profile


def test_the_verdict_is_that_of_the_selected_profile() -> None:
    text = with_profiles("smoke: {datasets: {sums: {from: {arithmetic: null, files: nowhere.jsonl}}}}")
    checked = compile_text(text)
    selected = compile_text(text, profiles=("smoke",))
    assert [one.message for one in checked.diagnostics] == [one.message for one in selected.diagnostics] != []


def test_a_removed_stage_that_others_need_is_labelled() -> None:
    text = with_profiles("smoke: {stages: {sft: null}}")
    (found,) = compile_text(text).diagnostics
    assert (found.code, found.profiles) == ("PT0301", ("smoke",))
    assert [(str(label.span), label.text) for label in found.labels] == [
        (place_of(text, "sft: null"), "removed here")
    ]


@pytest.mark.parametrize(
    ("overlay", "word"),
    [
        ("{rewards: {right: null}}", "right: null"),
        ("{stages: {check: null}}", "check: null"),
        ("{datasets: {sums: null}}", "sums: null"),
        ("{stages: {sft: {data: null}}}", "data: null"),
    ],
)
def test_every_kind_of_removed_declaration_is_labelled(overlay: str, word: str) -> None:
    gate = "  ship: {gate: [{metric: check.score, at_least: 0.5}]}\n"
    text = with_profiles(f"smoke: {overlay}", base=MINIMAL_RECIPE + gate)
    removed = [label for one in compile_text(text).diagnostics for label in one.labels]
    assert place_of(text, word) in [str(label.span) for label in removed if label.text == "removed here"]


def test_a_finding_of_the_recipe_itself_appears_once_without_a_profile() -> None:
    base = MINIMAL_RECIPE.replace("epochs: 1", "epoch: 1")
    text = with_profiles("a: {seed: 1}", "b: {seed: 2}", base=base)
    assert found_in(compile_text(text)) == [(place_of(text, "epoch: 1"), "PT0201", ())]


def test_a_finding_of_several_profiles_appears_once_with_their_names() -> None:
    smaller = "{datasets: {sums: {from: {arithmetic: {count: 60}}}}}"
    text = with_profiles(f"a: {smaller}", "b: {seed: 1}", f"c: {smaller}")
    assert found_in(compile_text(text)) == [(place_of(text, "{test: 100}"), "PT0406", ("a", "c"))]


def test_selected_profiles_are_also_checked_together() -> None:
    text = with_profiles(
        "few: {datasets: {sums: {from: {arithmetic: {count: 110}}}}}",
        "more: {datasets: {sums: {steps: [{split: {test: 190}}]}}}",
    )
    assert found_in(compile_text(text)) == []
    outcome = compile_text(text, profiles=("few", "more"))
    assert found_in(outcome) == [(place_of(text, "{test: 190}"), "PT0406", ("few + more",))]
    assert outcome.plan is None


def test_a_profile_of_an_extended_file_is_reported_there() -> None:
    shared = "profiles:\n  smoke: {stages: {sft: {params: {epoch: 2}}}}\n"
    outcome = compile_text("extends: shared.yaml\n" + MINIMAL_RECIPE, files={"shared.yaml": shared})
    assert found_in(outcome) == [(place_of(shared, "epoch: 2", "shared.yaml"), "PT0201", ("smoke",))]


def test_every_leg_of_a_profile_is_checked() -> None:
    base = MINIMAL_RECIPE.replace("name: demo", "name: demo\nmatrix: {size: [2, 4]}")
    base = base.replace("batch_size: 4", 'batch_size: "${matrix.size}"')
    text = with_profiles("large: {matrix: {size: [2, 4, half]}}", base=base)
    (found,) = compile_text(text).diagnostics
    assert (found.code, found.profiles) == ("PT0203", ("large",))
    assert place_of(text, "half") in [str(label.span) for label in found.labels]


def test_an_override_is_meant_for_the_selected_profiles() -> None:
    extra = "extra: {train: sft, model: base, data: sums.train, params: {epochs: 1}}"
    text = with_profiles(f"more: {{stages: {{{extra}}}}}")
    given = (("stages.extra.params.epochs", "2"),)
    assert found_in(compile_text(text, profiles=("more",), overrides=given)) == []


@pytest.mark.parametrize("path", ["profiles.smoke.seed", "extends"])
def test_an_override_without_effect_is_an_error(path: str) -> None:
    (found,) = compile_text(with_profiles("smoke: {seed: 1}"), overrides=((path, "3"),)).diagnostics
    assert (found.code, found.profiles) == ("PT0113", ())


@pytest.mark.parametrize("key", ["extends: base.yaml", "profiles: {}"])
def test_a_profile_cannot_contain_what_only_a_file_has(key: str) -> None:
    (found,) = compile_text(with_profiles(f"smoke: {{{key}}}")).diagnostics
    assert (found.code, found.profiles) == ("PT0112", ())
    assert "`smoke`" in found.message


def test_only_the_selection_counts_without_the_check() -> None:
    request = CompileRequest(
        source=SourceFile("recipe.yaml", with_profiles("smoke: {stages: {sft: {epoch: 2}}}").encode()),
        catalog=CATALOG,
        read=lambda name: None,
    )
    assert compile_recipe(request).diagnostics == ()
    assert compile_recipe(replace(request, check_profiles=True)).diagnostics != ()


def test_a_file_is_read_once_for_all_profiles() -> None:
    reads: list[str] = []

    def read(name: str) -> bytes:
        reads.append(name)
        return b'{"prompt": "1+1", "answer": "2"}\n' * 200

    base = MINIMAL_RECIPE.replace("arithmetic: {digits: 2, count: 200}", "files: rows.jsonl")
    text = with_profiles(*(f"p{number}: {{seed: {number}}}" for number in range(9)), base=base)
    source = SourceFile("recipe.yaml", text.encode())
    alone = CompileRequest(source=source, catalog=CATALOG, read=read)
    compile_recipe(alone)
    one = len(reads)
    compile_recipe(replace(alone, check_profiles=True))
    assert 0 < len(reads) - one <= 2 * one


def own_profiles(folder: Path) -> list[str]:
    """The profiles that stand in the recipe itself and not in a file that it extends."""
    tree = parse(SourceFile("recipe.yaml", (folder / "recipe.yaml").read_bytes()), Diagnostics())
    assert tree is not None
    entry = tree.entries.get("profiles")
    return list(entry.node.entries) if entry is not None and isinstance(entry.node, MappingNode) else []


PROFILES = [
    pytest.param(folder.name, profile, id=f"{folder.name}-{profile}")
    for folder in sorted(RECIPES.iterdir())
    for profile in own_profiles(folder)
]


@pytest.mark.parametrize(("recipe", "profile"), PROFILES)
def test_a_wrong_key_is_reported_in_every_mapping_of_a_profile(recipe: str, profile: str) -> None:
    folder = RECIPES / recipe

    def read(name: str) -> bytes | None:
        return (folder / name).read_bytes() if (folder / name).is_file() else None

    source = SourceFile("recipe.yaml", (folder / "recipe.yaml").read_bytes())
    tree = parse(source, Diagnostics())
    assert tree is not None
    text = source.data.decode()
    left = brace_places(tree, profile, text.splitlines())
    assert left
    while left:  # an error can hide others until it is corrected
        wrong = with_keys(text, left)
        changed = replace(source, data=wrong.encode())
        request = CompileRequest(source=changed, catalog=CATALOG, read=read, check_profiles=True)
        lines = {
            (span.file, span.line)
            for one in compile_recipe(request).diagnostics
            if one.severity == "error" and profile in one.profiles
            for span in (one.span, *(label.span for label in one.labels))
        }
        found = {place for place in left if ("recipe.yaml", place[0]) in lines}
        assert found, [text.splitlines()[line - 1] for line, _ in left]
        left -= found


def key_at(place: tuple[int, int]) -> str:
    return f"zz-{place[0]}-{place[1]}:"


def with_keys(text: str, places: set[tuple[int, int]]) -> str:
    """The text with a wrong key at each place."""
    lines = text.splitlines(keepends=True)
    for line, column in sorted(places, reverse=True):
        before = lines[line - 1]
        lines[line - 1] = f"{before[:column]}{key_at((line, column))} [1], {before[column:]}"
    return "".join(lines)


def brace_places(tree: MappingNode, profile: str, lines: list[str]) -> set[tuple[int, int]]:
    """The places after the opening braces of the mappings in a profile, without those with free keys."""
    overlay: Node | None = tree
    for key in ("profiles", profile):
        entry = overlay.entries.get(key) if isinstance(overlay, MappingNode) else None
        overlay = entry.node if entry is not None else None
    if overlay is None:
        return set()
    return {
        (node.span.line, node.span.column)
        for path, node in walk_nodes(overlay)
        if isinstance(node, MappingNode)
        and path[:1] not in (("vars",), ("matrix",))
        and lines[node.span.line - 1][node.span.column - 1] == "{"
    }


@pytest.mark.parametrize(
    ("overlay", "word", "code", "help"),
    [
        ("{vars: {siez: 32}}", "siez", "PT0305", "did you mean `size`?"),
        ("{models: {bases: {from: gpt2}}}", "bases", "PT0304", "did you mean `base`?"),
        ("{datasets: {sum: {from: {arithmetic: {digits: 2, count: 9}}}}}", "sum: {", "PT0304", ""),
        ("{rewards: {right: {nodes: {scores: {tokens: {}}}}}}", "scores", "PT0506", ""),
    ],
)  # fmt: skip
def test_a_misspelled_name_in_a_profile_declares_something_that_nothing_uses(
    overlay: str, word: str, code: str, help: str
) -> None:
    """What the profile leaves unused of the recipe is not reported."""
    base = MINIMAL_RECIPE.replace("name: demo", "name: demo\nvars: {size: 64}")
    base = base.replace("hidden_size: 64", 'hidden_size: "${vars.size}"')
    text = with_profiles(f"smoke: {overlay}", "fixed: {models: {base: {init: {hidden_size: 64}}}}", base=base)
    (found,) = compile_text(text).diagnostics
    assert (str(found.span), found.code, found.profiles) == (place_of(text, word), code, ("smoke",))
    assert found.help.startswith(help)


def test_a_misspelled_name_in_an_override_is_reported() -> None:
    base = MINIMAL_RECIPE.replace("name: demo", "name: demo\nvars: {size: 64}")
    base = base.replace("hidden_size: 64", 'hidden_size: "${vars.size}"')
    assert compile_text(base, overrides=(("vars.size", "32"),)).diagnostics == ()
    (found,) = compile_text(base, overrides=(("vars.siez", "32"),)).diagnostics
    assert (found.code, found.help) == ("PT0305", "did you mean `size`?")
