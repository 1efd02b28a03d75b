"""Functions of the user before a run: their source is parsed, their imports are looked up."""

import subprocess
import sys
import venv
from pathlib import Path

import pytest
from tests.runtime.preflight.local_services import LocalServices
from tests.runtime.preflight.preflight_recipe import HEAD, REWARD, check

from posttrain.runtime.preflight.module_search import missing_modules

PLAYED = """\
environments:
  shop: {type: python, params: {call: "shop.py:Shop", with: {size: 2}}}
rewards:
  played: {reads: {completion: text}, returns: {environment: {metric: score}}}
stages:
  play: {eval: small, environment: shop, data: sums, reward: played, metrics: {score: {mean: returns}}}
"""
SHOP = """\
class Shop:
    def __init__(self, size): ...
    def reset(self, row, seed): ...
    def step(self, action): ...
    def score(self): ...
"""


def causes(folder: Path, source: str, recipe: str = HEAD + REWARD) -> list[str]:
    folder.mkdir(exist_ok=True)
    (folder / "grade.py").write_text(source)
    found = check(folder, recipe)
    assert {one.check for one in found} <= {"function"}
    return [f"{one.severity}: {one.cause}" for one in found]


@pytest.mark.parametrize(
    "source",
    [
        "def grade(text, answer): ...",
        "def grade(*, answer, text, more=1): ...",
        "def grade(**columns): ...",
        "@decorated\ndef grade(anything): ...",
        "grade = make_grader()",
        "from grading import grade",
        "grade = lambda text, answer: 1.0",
        "class Grade:\n    def __call__(self, text, answer): ...\ngrade = Grade()",
        "class grade(float): ...",
        "grade = None\ndef start():\n    global grade\n    grade = 1 .__add__\nstart()",
        "def grade(text, answer):\n    def parts():\n        yield 1\n    return sum(x for x in parts())",
        "if FAST:\n    def grade(text, answer): ...\nelse:\n    def grade(text, answer): ...",
        "try:\n    import no_such_library\nexcept ImportError:\n    pass\ndef grade(text, answer): ...",
        "import typing\nif typing.TYPE_CHECKING:\n    import no_such\ndef grade(text, answer): ...",
        "import os.path, json\nfrom pydantic import fields\ndef grade(text, answer): ...",
    ],
)
def test_a_function_that_accepts_the_call_is_fine(source: str, tmp_path: Path) -> None:
    found = causes(tmp_path, source)
    assert found == [] or "`grading`" in found[0]


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("def grad(text, answer): ...", "the file does not define `grade`"),
        ("def grade(text): ...", "`grade` takes `text`, and the recipe passes `answer` (grade.py:1)"),
        ("\ndef grade(text, answer, rubric): ...", "requires `rubric`, which the recipe does not pass"),
        ("def grade(text, answer, /): ...", "takes no arguments, and the recipe passes `text`, `answer`"),
        ("async def grade(text, answer): ...", "is a coroutine function"),
        ("def grade(text, answer):\n    yield 1.0", "`grade` is a generator function"),
        ("class grade:\n    def __call__(self, text, answer): ...", "`grade` is a class: a call returns"),
        ("grade = 5", "`grade` is a value, not a function (grade.py:1)"),
        ("grade: dict = {}", "`grade` is a value, not a function"),
        ("grade = lambda text: 1.0", "`grade` takes `text`, and the recipe passes `answer`"),
        (
            "from .near import x\ndef grade(text, answer): ...",
            "has a relative import of `.near` (grade.py:1)",
        ),
        ("from . import y\ndef grade(text, answer): ...", "has a relative import of `.` (grade.py:1)"),
        ("def grade(text, answer)\n    ...", "grade.py:1: expected ':'"),
        ("def grade(text, answer):\n    x = '\0'", "source code string cannot contain null bytes"),
        ("import no_such_library\ndef grade(text, answer): ...", "imports `no_such_library` (grade.py:1)"),
        (
            "import json.nothing_here\nimport pydantic.nothing\ndef grade(text, answer): ...",
            "`pydantic.nothing`",
        ),
        ("if X:\n    pass\nclass grade_: ...", "the file does not define `grade`"),
    ],
)
def test_a_function_that_cannot_be_called_is_an_error(source: str, cause: str, tmp_path: Path) -> None:
    (found,) = causes(tmp_path, source)
    assert found.startswith("error: ")
    assert cause in found


def test_an_import_inside_a_function_is_a_warning(tmp_path: Path) -> None:
    source = "def grade(text, answer):\n    import no_such_library\n"
    (found,) = causes(tmp_path, source)
    assert found.startswith("warning: ")


def test_a_neighboring_file_must_be_listed(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("import no_such_library\n")
    (tmp_path / "grade.py").write_text("import helper\ndef grade(text, answer): ...\n")
    (found,) = check(tmp_path, HEAD + REWARD)
    assert found.advice == "list helper.py under `modules`"
    listed = REWARD.replace('"grade.py:grade",', '"grade.py:grade", modules: [helper.py],')
    (inside,) = check(tmp_path, HEAD + listed)
    assert "imports `no_such_library` (helper.py:1)" in inside.cause


def test_nothing_of_the_user_is_executed(tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    source = f"open({str(mark)!r}, 'w')\nimport local_package.inner\ndef grade(text, answer): ...\n"
    (tmp_path / "grade.py").write_text(source)
    check(tmp_path, HEAD + REWARD)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (("", ""), ""),
        (("reset(self, row, seed)", "reset(self, row)"), "`Shop.reset` cannot be called as reset(row, seed)"),
        (("step(self, action)", "step(self)"), "`Shop.step` cannot be called as step(action)"),
        (("    def score(self): ...\n", ""), "the class `Shop` has no method `score`"),
        (("__init__(self, size)", "__init__(self)"), "`Shop.__init__` takes no arguments"),
        (("__init__(self, size)", "__init__(self, size, color)"), "requires `color`"),
        (("class Shop:", "class Shop(Base):"), ""),
        (("    def __init__(self, size): ...\n", ""), "`Shop` takes no arguments"),
    ],
)
def test_the_class_of_an_environment(change: tuple[str, str], cause: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP.replace(*change) if change[0] else SHOP)
    found = check(tmp_path, HEAD + PLAYED)
    if not cause:
        assert found == ()
        return
    (only,) = found
    assert cause in only.cause
    assert only.place.line == 10, "the place of the environment"


@pytest.fixture(scope="module")
def second_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter without the libraries of this one."""
    folder = tmp_path_factory.mktemp("second") / "env"
    venv.create(folder, with_pip=False)
    return folder / "bin" / "python"


def test_modules_are_looked_up_in_the_interpreter_that_runs_the_code(second_python: Path) -> None:
    names = ["pydantic", "json", "email.mime.text", "os.path", "pydantic.no_such_module"]
    assert missing_modules([sys.executable], names, {}) == {"pydantic.no_such_module"}
    assert missing_modules([str(second_python)], names, {}) == {"pydantic", "pydantic.no_such_module"}


def test_a_lookup_imports_no_package(second_python: Path) -> None:
    listed = subprocess.run(
        [second_python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    )
    package = Path(listed.stdout.strip()) / "loud"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (package / "inner.py").write_text("raise RuntimeError('imported')\n")
    assert missing_modules([str(second_python)], ["loud.inner", "loud.other"], {}) == {"loud.other"}


@pytest.mark.parametrize(
    ("python", "cause"),
    [("SECOND", "does not have the module `textarena`"), ("/nonexistent/python", "there is no interpreter")],
)
def test_the_interpreter_of_an_environment(
    python: str, cause: str, second_python: Path, tmp_path: Path, services: LocalServices
) -> None:
    python = python.replace("SECOND", str(second_python))
    shop = 'type: python, params: {call: "shop.py:Shop", with: {size: 2}}'
    params = f'low: 0, high: 1, game: GuessTheNumber-v0, version: "0.7.4", python: "{python}"'
    game = f"type: textarena, params: {{{params}}}"
    recipe = HEAD.replace("count: 40}}}", 'count: 40}}, steps: [{derive: {seed: "1"}}]}')
    (found,) = check(tmp_path, recipe + PLAYED.replace(shop, game))
    assert (found.check, found.severity) == ("function", "error")
    assert cause in found.cause
