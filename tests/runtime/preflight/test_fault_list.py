"""The list that a run prints for a recipe with one fault of every kind. The documentation shows it.

`--regenerate` writes it there.
"""

import re
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import get_args

import pytest
from tests.recipe_command import ROOT, run_command
from tests.runtime.preflight.local_services import LocalServices

from posttrain.runtime.preflight import run_preflight
from posttrain.runtime.preflight.finding import Check

PAGE = ROOT / "docs" / "preflight.md"
BLOCK = re.compile(r"(?<=```text\n)error.*?(?=```)", re.DOTALL)
FILES = {
    "grade.py": "import no_such_library\n\n\ndef grade(text, reference):\n    return 1.0\n",
    "near.py": "def near(text)\n    return 1.0\n",
    "shop.py": "class Shop:\n    def reset(self, row): ...\n    def step(self, action): ...\n"
    "    def score(self): ...\n",
}
# A run of this recipe leaves the dataset `few` in the store.
ROWS = """\
recipe: 1
name: rows
datasets:
DATASETS
stages:
  list: {script: [ls], inputs: {rows: few}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(Path(__file__).with_name("faults") / "recipe.yaml", tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "notes.txt").write_text("not an export\n")
    return tmp_path


def build_rows(folder: Path) -> None:
    lines = (folder / "recipe.yaml").read_text().splitlines()
    datasets = [line for line in lines if line.startswith(("  sums: ", "  few: "))]
    rows = folder / "rows" / "recipe.yaml"
    rows.parent.mkdir()
    rows.write_text(ROWS.replace("DATASETS", "\n".join(datasets)))
    assert run_command("run", rows, "--home", folder / "home").returncode == 0


def serve(services: LocalServices) -> None:
    services.answers["/v1/models"] = (200, {"data": [{"id": "tiny-2"}]})
    services.answers["/busy/models"] = (503, {"error": "loading"})
    services.answers["/locked/models"] = (401, {"error": "invalid key"})
    services.add_repository("dataset", "example/posts", "main")


def with_constant_values(text: str, folder: Path, services: LocalServices) -> str:
    """The output with the values of the documentation in the place of those of this machine."""
    text = text.replace(f"--> {folder}/", "--> ").replace(services.url, "http://127.0.0.1:8000")
    text = text.replace(str(folder), "/data/faults").replace(sys.executable, "/opt/venv/bin/python")
    text = re.sub(r"\[Errno \d+\] ", "", text)
    text = re.sub(r"this machine has [\d.]+ GB", "this machine has 64.0 GB", text)
    return re.sub(r"and [\d.]+ [GM]B is free", "and 512.0 GB is free", text)


def test_every_fault_is_in_one_list(
    folder: Path,
    services: LocalServices,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    if find_spec("vllm") is not None:
        pytest.skip("the missing library of this recipe is vLLM, which is installed")
    build_rows(folder)
    serve(services)
    monkeypatch.setenv("LOCKED_KEY", "s3cret-value")
    monkeypatch.setenv("DOCKER_HOST", "unix:///run/no-docker.sock")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    for name in ("PAID_API_KEY", "PUSH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    recipe = folder / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("http://127.0.0.1:8000", services.url))
    done = run_command("run", recipe, "--home", folder / "home")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "> " not in done.stdout, "no step has started"
    assert "s3cret-value" not in done.stdout + done.stderr
    assert not [one for one in services.requests if one.startswith("POST")], "no completion is requested"
    printed = BLOCK.search(f"```text\n{done.stderr[done.stderr.index('error[') :]}```")
    assert printed is not None
    found = with_constant_values(printed[0], folder, services)
    if request.config.getoption("--regenerate"):
        PAGE.write_text(BLOCK.sub(lambda _: found, PAGE.read_text()))
    shown = BLOCK.search(PAGE.read_text())
    assert shown is not None
    assert found == shown[0]
    kinds = set(re.findall(r"^\w+\[(\w+)\]", found, re.MULTILINE))
    # A run on a cluster has the check `place` in place of `machine`: no run has both.
    assert kinds == set(get_args(Check)) - {"place"}, "one fault of every other kind"


def test_the_page_lists_every_kind_of_check() -> None:
    text = PAGE.read_text()
    for kind in get_args(Check):
        assert f"| `{kind}` |" in text


def test_the_page_shows_the_recipe() -> None:
    recipe = (Path(__file__).with_name("faults") / "recipe.yaml").read_text()
    assert f"```yaml\n{recipe}```" in PAGE.read_text()


def test_every_check_of_the_package_is_run() -> None:
    package = Path(run_preflight.__file__).parent
    with_probes = {path.stem for path in package.glob("*.py") if "\ndef probes(" in path.read_text()}
    assert with_probes == set(run_preflight._CHECKS)
