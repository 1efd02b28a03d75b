"""Every command works in folders, with files and with a home whose names mean something to other programs."""

import json
import shutil
from pathlib import Path

import pytest
from tests.recipe_command import TINY_RECIPE, run_command

# All characters of tests/hostile_names.py in one name, and the names that mean something as a whole.
EVERY_CHARACTER = "a*?[b]{c,d} 'e\"\\*%2Fs#;&:ü~$HOME`id`<b>\nx=1"
NAMES = {"every character": EVERY_CHARACTER, "dash": "-rf", "dots": "..a", "partition": "answer=7"}
COMMANDS = (
    ("validate",),
    ("validate", "--format", "sarif"),
    ("plan", "HOME"),
    ("run", "HOME"),
    ("plan", "--format", "json", "HOME"),
    ("lock",),
    ("plan", "--locked", "HOME"),
    ("fmt",),
)
HOME_COMMANDS = (
    ("status",),
    ("runs",),
    ("logs", "sft"),
    ("path", "export"),
    ("report",),
    ("verify",),
    ("gc",),
)


def rows(start: int) -> str:
    made = ((f"{n}+1=", str(n + 1)) for n in range(start, start + 6))
    texts = [{"prompt": p, "completion": f"<answer>{a}</answer>", "answer": a} for p, a in made]
    return "".join(json.dumps(row) + "\n" for row in texts)


def make_recipe(folder: Path, name: str) -> Path:
    """The tiny recipe with its data and its template in files of hostile names."""
    shutil.copytree(TINY_RECIPE, folder)
    (folder / name).mkdir()
    (folder / name / f"{name}.jsonl").write_text(rows(1))
    (folder / "chat.jinja").rename(folder / f"{name}.jinja")
    text = (folder / "recipe.yaml").read_text().replace("chat.jinja", json.dumps(f"{name}.jinja"))
    source = f"files: {json.dumps(f'{name}/{name}.jsonl')}"
    text = text.replace("arithmetic: {digits: 1, count: 81, seed: 1}", source).replace("test: 17", "test: 2")
    head, tail = text.index("  grpo:"), text.index("  ship:")
    text = text[:head] + text[tail:].replace("after.", "before.").replace("export: grpo", "export: sft")
    text = text.replace("max_steps: 12", "max_steps: 2").replace("batch_size: 16", "batch_size: 2")
    (folder / "recipe.yaml").write_text(text.replace("save_steps: 4", "save_steps: 1"))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("key", NAMES)
def test_every_command_works(tmp_path: Path, key: str) -> None:
    name = NAMES[key]
    folder = make_recipe(tmp_path / name, name)
    for sibling in ("ab", "b", "a"):  # what the name would match as a pattern
        (tmp_path / sibling / name).mkdir(parents=True)
        (tmp_path / sibling / name / f"{name}.jsonl").write_text(rows(50))
    home = folder / f"home {name}"
    # The path as a user must write it: an argument must not start with a dash.
    target = f"./{name}" if name.startswith("-") else name
    for command in COMMANDS:
        given = [part for part in command if part != "HOME"]
        own = ["--home", str(home)] if "HOME" in command else []
        done = run_command(*given, *own, target, cwd=tmp_path)
        assert done.returncode == 0, (command, done.stderr)
    for command in HOME_COMMANDS:
        done = run_command(*command, "--home", home, cwd=tmp_path)
        assert done.returncode == 0, (command, done.stderr)
    assert run_command("diff", target, f"{target}/recipe.yaml", cwd=tmp_path).returncode == 0
    _check_rows(home)
    assert {path.name for path in tmp_path.iterdir()} == {name, "ab", "b", "a"}, "nothing else was written"
    _evaluate_export(folder, name, home)


def _check_rows(home: Path) -> None:
    from pyarrow import parquet

    found = [path for path in home.rglob("*.parquet") if path.name in ("train.parquet", "test.parquet")]
    table = [row for path in found for row in parquet.read_table(path).to_pylist()]
    assert sorted(int(row["answer"]) for row in table) == [2, 3, 4, 5, 6, 7]
    assert {column for row in table for column in row} == {"prompt", "completion", "answer"}


def _evaluate_export(folder: Path, name: str, home: Path) -> None:
    """The exported model is a model of the next recipe, in a folder of the same name."""
    shown = run_command("path", "export", "--home", home).stdout
    shutil.copytree(Path(shown.removesuffix("\n")), folder / name / "model")
    text = (folder / "recipe.yaml").read_text()
    start, end = text.index("    init:"), text.index("datasets:")
    text = text[:start] + f"    from: {json.dumps(f'./{name}/model')}\n" + text[end:]
    head = text.index("  sft:")
    tail = text.index("  before:")
    text = (
        (text[:head] + text[tail:]).replace("eval: sft", "eval: base").replace("export: sft", "export: base")
    )
    (folder / "recipe.yaml").write_text(text)
    done = run_command("run", "--home", home, folder)
    assert done.returncode == 0, done.stderr
