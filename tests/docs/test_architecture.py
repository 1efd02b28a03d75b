"""ARCHITECTURE.md lists every package once, and a module's basename occurs once in a layer."""

import re
from collections import defaultdict
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "ARCHITECTURE.md").read_text(encoding="utf-8")
LAYERS = {
    "spec": REPOSITORY / "spec/posttrain/spec",
    "compiler": REPOSITORY / "compiler/posttrain/compiler",
    "runtime": REPOSITORY / "runtime/posttrain/runtime",
    "grading": REPOSITORY / "runtime/posttrain/grading",
    "cli": REPOSITORY / "runtime/posttrain/cli",
}
_EXTENSION = re.compile(r"^EXTENSION\b", re.MULTILINE)


def layer_packages(layer: str) -> set[str]:
    """The packages of a layer as on the page, such as `runtime/rewards/ops/`."""
    root = LAYERS[layer]
    return {f"{file.parent.relative_to(root.parent).as_posix()}/" for file in root.rglob("__init__.py")}


def listed_packages(layer: str) -> list[str]:
    section = PAGE.partition(f"\n### {layer}\n")[2]
    table = re.split(r"^##", section, maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(r"^\| `([\w/]+/)` \| \S.* \|$", table, flags=re.MULTILINE)


def duplicate_basenames(root: Path) -> dict[str, list[str]]:
    """The basenames that modules of a layer share, with these modules.

    Exempt are basenames that only extensions share: the file of an extension has the extension's name.
    """
    found: defaultdict[str, list[Path]] = defaultdict(list)
    for file in sorted(root.rglob("*.py")):
        if file.name != "__init__.py":
            found[file.name].append(file)
    return {
        name: [file.relative_to(root).as_posix() for file in files]
        for name, files in found.items()
        if len(files) > 1 and not all(_EXTENSION.search(file.read_text(encoding="utf-8")) for file in files)
    }


def test_there_is_no_other_layer() -> None:
    trees = [REPOSITORY / name / "posttrain" for name in ("spec", "compiler", "runtime")]
    found = [folder for tree in trees for folder in tree.iterdir() if (folder / "__init__.py").exists()]
    assert sorted(found) == sorted(LAYERS.values())
    assert re.findall(r"^### (\w+)$", PAGE, flags=re.MULTILINE) == list(LAYERS)


@pytest.mark.parametrize("layer", LAYERS)
def test_each_package_is_listed_once(layer: str) -> None:
    assert sorted(listed_packages(layer)) == sorted(layer_packages(layer))


@pytest.mark.parametrize("layer", LAYERS)
def test_a_basename_occurs_once_in_a_layer(layer: str) -> None:
    assert duplicate_basenames(LAYERS[layer]) == {}


def test_files_that_the_page_names_exist() -> None:
    """Each file is named from the repository's root, or from the root or a package of a layer."""
    names = set(re.findall(r"`([\w./]+\.(?:py|md|json|toml))`", PAGE)) - {"config.json"}
    tails = [name.rpartition(".../")[2] for name in names]
    files = [
        path.as_posix()
        for top in ("spec", "compiler", "runtime", "perf", "docs", "tests/docs")
        for path in (REPOSITORY / top).rglob("*.*")
    ]
    files.append((REPOSITORY / "pyproject.toml").as_posix())
    missing = [tail for tail in tails if not any(file.endswith(f"/{tail}") for file in files)]
    assert sorted(missing) == []


def test_a_shared_basename_is_found(tmp_path: Path) -> None:
    modules = ("codes.py", "gate.py", "sum.py", "__init__.py")
    extensions = ("a/gate.py", "b/gate.py", "b/sum.py")
    for name in (f"{package}/{module}" for package in "ab" for module in modules):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("EXTENSION = None\n" if name in extensions else "")
    expected = {name: [f"a/{name}", f"b/{name}"] for name in ("codes.py", "sum.py")}
    assert duplicate_basenames(tmp_path) == expected
