"""`recipe fmt` has one canonical form, and never changes the meaning of a recipe."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.cli.recipe_corpus import CORRECT_EXAMPLES, OVERLAYS, RECIPES, parse_tree, path_id
from tests.cli.yaml_strategies import documents
from tests.recipe_command import RECIPE_COMMAND, run_command

from posttrain.compiler.format.format_recipe import format_recipe
from posttrain.compiler.format.yaml_syntax import collect_comments_and_anchors
from posttrain.compiler.text.compile_request import SourceFile
from posttrain.compiler.text.yaml_tree import node_to_builtins

SHIPPED = [path.read_text() for path in (*RECIPES, *OVERLAYS)] + list(
    dict.fromkeys(CORRECT_EXAMPLES.values())
)


def format_text(text: str) -> str | None:
    return format_recipe(SourceFile("recipe.yaml", text.encode())).text


def check_meaning_kept(text: str) -> None:
    """Check that formatting preserves comments and values, and is idempotent."""
    tree = parse_tree(text)
    assert tree is not None
    made = format_text(text)
    assert made is not None
    after = parse_tree(made)
    assert after is not None
    assert typed(node_to_builtins(after)) == typed(node_to_builtins(tree))
    assert collect_comments_and_anchors(made) == collect_comments_and_anchors(text)
    assert format_text(made) == made


def typed(value: object) -> object:
    """A value in which 1, 1.0 and true differ, independent of the order of keys."""
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    return [typed(item) for item in value] if isinstance(value, list) else (type(value).__name__, repr(value))


@pytest.mark.parametrize("path", [*RECIPES, *OVERLAYS], ids=path_id)
def test_every_recipe_of_the_project_can_be_formatted(path: Path) -> None:
    check_meaning_kept(path.read_text())


@settings(max_examples=40)
@given(documents())
def test_formatting_preserves_the_meaning_of_any_yaml(text: str) -> None:
    assume(parse_tree(text) is not None)
    check_meaning_kept(text)


@st.composite
def mutated_recipe(draw: st.DrawFn) -> str:
    """A recipe of the project with additional comments, empty lines and spaces."""
    lines = draw(st.sampled_from(SHIPPED)).splitlines()
    for _ in range(draw(st.integers(1, 8))):
        place = draw(st.integers(0, len(lines) - 1))
        match draw(st.sampled_from(["comment", "trail", "empty", "spaces", "quotes"])):
            case "comment":
                lines.insert(place, " " * draw(st.integers(0, 8)) + f"# {draw(st.integers(0, 99))}")
            case "trail":
                lines[place] += f"   # {draw(st.integers(0, 99))}"
            case "empty":
                lines.insert(place, "")
            case "spaces":
                lines[place] = lines[place].replace(": ", ":   ").replace(", ", " ,  ")
            case _:
                lines[place] = lines[place].replace('"', "'")
    return "\n".join(lines) + "\n"


@settings(max_examples=40)
@given(mutated_recipe())
def test_a_recipe_keeps_its_comments_and_its_meaning(text: str) -> None:
    assume(parse_tree(text) is not None)
    check_meaning_kept(text)


SECTIONS = """\
# The file's own words.

# About the stages.
stages:
    sft:  {train: sft, model: base,data: sums}   # how
# About the name.
name:   'demo'
profiles: {smoke: {seed: 1}}

recipe: 1
models:

  base: {init: {model_type: qwen2, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4,
      intermediate_size: 128, max_position_embeddings: 512},
         tokenizer: {init: characters, added_tokens: [<answer>, </answer>]}}

  # The last word on models.
datasets:
  sums:
    from: {files: {path: rows.jsonl,
       columns: {prompt: text}}}  # made by hand
    steps:
    - where: "length(prompt) > 2"
    -   split:
          test: 100
# The last word.
"""
CANONICAL = """\
# The file's own words.

recipe: 1
# About the name.
name: "demo"

models:
  base:
    init:
      model_type: qwen2
      num_hidden_layers: 2
      hidden_size: 64
      num_attention_heads: 4
      intermediate_size: 128
      max_position_embeddings: 512
    tokenizer: {init: characters, added_tokens: [<answer>, </answer>]}

  # The last word on models.

datasets:
  sums:
    from: {files: {path: rows.jsonl, columns: {prompt: text}}}  # made by hand
    steps:
      - where: "length(prompt) > 2"
      - split:
          test: 100

# About the stages.
stages:
  sft: {train: sft, model: base, data: sums}  # how

profiles: {smoke: {seed: 1}}
# The last word.
"""


def test_the_canonical_form() -> None:
    assert format_text(SECTIONS) == CANONICAL


ALIGNED_COMMENTS = """\
recipe: 1     # the version
name:   demo  # the name

stages:
  sft:    {train: sft, model: base}
  export: {export: sft}
  grpo: {train: grpo, model: sft}
"""


def test_aligned_comments_stay_aligned() -> None:
    made = format_text(ALIGNED_COMMENTS.replace("{train: sft, model: base}", "{train: sft,model: base}"))
    assert made == ALIGNED_COMMENTS


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a: no\nb: 1e-5\nc: 012\nd: 2020-01-01\ne: .5\n", "a: no\nb: 1e-5\nc: 012\nd: 2020-01-01\ne: .5\n"),
        ("a: 'it''s'\n", 'a: "it\'s"'),
        ("a: 'say \"hi\"'\n", "a: 'say \"hi\"'"),
        ("a: 'back\\slash'\n", "a: 'back\\slash'"),
        ("a: &x {b: 1}\nc: *x\nd: {<<: *x, e: 2}\n", "c: *x"),
        ("a: |\n      two\n\n      lines\n", "a: |\n  two\n\n  lines"),
        ("a: >-\n   folded\n   text\n", "a: >-\n  folded\n  text"),
        ("a: plain\n     and more\n", "a: plain\n  and more"),
        ("\ufeffa: 1\r\nb: 2\r\n", "a: 1"),
        ("a: {}\nb: []\nc:\nd: {e, f: }\n", "d: {e, f}"),
    ],
)
def test_scalars_keep_their_type(text: str, kept: str) -> None:
    made = format_text(text)
    assert made is not None
    assert kept in made
    check_meaning_kept(text)


def test_an_alias_never_comes_before_its_anchor() -> None:
    text = "stages: &s {a: 1}\nmodels: *s\n"
    made = format_text(text)
    assert made is not None
    assert made.index("&s") < made.index("*s")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("%YAML 1.2\n---\na: 1\n", "directive"),
        ('a: ! "b"\n', "tag"),
        ("&k a: 1\n", "`a`"),
    ],
)
def test_unsafe_files_are_not_changed(text: str, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "recipe.yaml"
    file.write_text(text)
    ended = run_command("fmt", file)
    assert ended.returncode == 1
    assert "not changed" in ended.stderr
    assert reason in ended.stderr
    assert file.read_text() == text


def test_a_file_is_rewritten_in_place(tmp_path: Path) -> None:
    file = tmp_path / "recipe.yaml"
    file.write_text(SECTIONS)
    file.chmod(0o640)
    link = tmp_path / "link.yaml"
    link.symlink_to(file)
    assert run_command("fmt", link).returncode == 0
    assert file.read_text() == CANONICAL
    assert file.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()
    again = run_command("fmt", tmp_path)
    assert (again.returncode, again.stdout) == (0, "")


def test_check_and_diff_write_nothing(tmp_path: Path) -> None:
    file = tmp_path / "recipe.yaml"
    file.write_text(SECTIONS)
    checked = run_command("fmt", "--check", file)
    assert checked.returncode == 1
    assert str(file) in checked.stdout
    shown = run_command("fmt", "--diff", file)
    assert shown.returncode == 0
    assert "\n-name:   'demo'\n" in shown.stdout
    assert '\n+name: "demo"\n' in shown.stdout
    assert run_command("fmt", "--check", "--diff", file).returncode == 1
    assert file.read_text() == SECTIONS
    file.write_text(CANONICAL)
    assert run_command("fmt", "--check", file).returncode == 0


def test_an_unreadable_file_is_reported_and_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "recipe.yaml"
    file.write_text("name: demo\nname: again\n")
    ended = run_command("fmt", file)
    assert ended.returncode == 1
    assert "error[PT0103]" in ended.stderr
    assert file.read_text() == "name: demo\nname: again\n"


def test_standard_input_goes_to_standard_output() -> None:
    ended = subprocess.run(
        [*RECIPE_COMMAND, "fmt", "-"],
        input=SECTIONS.encode(),
        capture_output=True,
        check=False,
        env=os.environ,
    )
    assert ended.returncode == 0
    assert ended.stdout.decode() == CANONICAL


def test_several_files_are_each_formatted(tmp_path: Path) -> None:
    for name in ("one.yaml", "two.yaml"):
        (tmp_path / name).write_text(SECTIONS)
    assert run_command("fmt", tmp_path / "one.yaml", tmp_path / "two.yaml").returncode == 0
    assert all((tmp_path / name).read_text() == CANONICAL for name in ("one.yaml", "two.yaml"))
