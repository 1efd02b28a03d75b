"""Extensions of other distributions: what their parameters may be, and what happens if they are faulty."""

import os
import subprocess
from pathlib import Path

import pytest
from tests.recipe_command import RECIPE_COMMAND

HEAD = """
from typing import Annotated, Any, Literal, Optional, Union
from pydantic import BaseModel, Field, field_validator
from posttrain.spec.extension import Interval, Operand, Params, RewardOp
import datetime, enum


class Cat(Params):
    kind: Literal["cat"] = "cat"
    lives: int = Field(default=9, le=9, description="Lives.")


class Dog(Params):
    kind: Literal["dog"] = "dog"
    barks: bool = Field(default=True, description="Barks.")


class Color(enum.Enum):
    RED = "red"


class Plain(BaseModel):
    depth: int = 1


class Rhyme({base}):
    {field} = Field(default={default}, description="The parameter.")

    @field_validator("value")
    @classmethod
    def check_value(cls, value):
        if value == "raise":
            raise RuntimeError("no connection")
        return value


EXTENSION = RewardOp(
    name="rhyme",
    summary="Rhymes.",
    params=Rhyme,
    operands={{"of": Operand(type="text", description="The text.")}},
    yields="number",
)


def range(params, ranges):
    return Interval(0, 1)


def run(params, operands, batch):
    return [1.0 for _ in operands["of"]]
"""
RECIPE = """recipe: 1
name: rhymes
models:
  m:
    init: {model_type: qwen2, num_hidden_layers: 1, hidden_size: 32, num_attention_heads: 2}
    tokenizer: {init: characters}
datasets: {d: {from: {arithmetic: {count: 20}}}}
rewards: {r: {reads: {completion: text}, nodes: {a: {rhyme: {of: completion, value: VALUE}}}, returns: a}}
stages: {e: {eval: m, data: d, reward: r, metrics: {mean: a}}}
"""


def validated(
    folder: Path,
    field: str,
    value: str,
    default: str = "None",
    base: str = "Params",
    module: str | None = None,
) -> str:
    """What `recipe validate` prints for a value of a parameter of another distribution."""
    packages = folder / "packages"
    info = packages / "rhymes-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Name: rhymes\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[posttrain.reward]\nrhyme = rhyme_op\n")
    if module is None:
        module = HEAD.format(field=field, default=default, base=base)
    (packages / "rhyme_op.py").write_text(module)
    (folder / "recipe.yaml").write_text(RECIPE.replace("VALUE", value))
    path = os.pathsep.join(filter(None, (str(packages), os.environ.get("PYTHONPATH", ""))))
    done = subprocess.run(
        [*RECIPE_COMMAND, "validate", str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    printed = done.stdout + done.stderr
    assert "internal error" not in printed
    assert (done.returncode == 0) == ("is valid" in printed)
    return printed


PET = 'value: Annotated[Union[Cat, Dog], Field(discriminator="kind")]'
CASES = [
    ("value: tuple[int, ...]", "()", "[1, 2]", "is valid"),
    ("value: tuple[int, str]", "(1, 'a')", "[2, b]", "is valid"),
    ("value: Union[int, tuple[str, ...]]", "1", "[a]", "is valid"),
    ("value: tuple[Cat, ...]", "()", "[{lives: 3}]", "is valid"),
    ("value: tuple[int, ...]", "()", "[1, x]", "expected a whole number, found the text `x`"),
    ("value: tuple[int, ...]", "()", "[1, 2.0]", "expected a whole number, found the number `2.0`"),
    ("value: tuple[Cat, ...]", "()", "[{lives: 3}, {live: 3}]", "unknown key `live`"),
    ("value: Optional[Cat]", "None", "{lives: 30}", "`30` must be at most 9"),
    (PET, "Cat()", "{kind: dog, barks: false}", "is valid"),
    (PET, "Cat()", "{kind: cat, lives: 30}", "`30` must be at most 9"),
    (PET, "Cat()", "{kind: dog, lives: 3}", "unknown key `lives`"),
    (PET, "Cat()", "{kind: cow}", "`cow` is not one of the legal values"),
    (PET, "Cat()", "{lives: 3}", "missing key `kind`"),
    ("value: Union[Cat, Dog]", "Cat()", "{lives: 30}", "`30` must be at most 9"),
    ("value: Any", "None", "{a: [1, .nan]}", "`.nan` must be finite"),
    ("value: dict[str, Any]", "{}", "{a: {b: 1e999}}", "`1e999` must be finite"),
    ("value: Any", "None", "{a: [1, null, text]}", "is valid"),
]


@pytest.mark.parametrize(("field", "default", "value", "expected"), CASES)
def test_a_parameter_of_an_extension_is_checked(
    field: str, default: str, value: str, expected: str, tmp_path: Path
) -> None:
    printed = validated(tmp_path, field, value, default)
    assert expected in printed
    assert printed.count("error[") == (expected != "is valid")


@pytest.mark.parametrize(
    ("field", "named"),
    [
        ("value: Optional[Plain]", "Plain must be derived from posttrain.spec.extension.Params"),
        ("value: tuple[Plain, ...]", "Plain must be derived from"),
        ("value: Optional[Color]", "`value` of Rhyme has the type Color"),
        ("value: Optional[frozenset[str]]", "`value` of Rhyme has the type frozenset"),
        ("value: Optional[datetime.date]", "`value` of Rhyme has the type date"),
    ],
)
def test_a_parameter_that_a_recipe_cannot_set_strictly_is_refused(
    field: str, named: str, tmp_path: Path
) -> None:
    printed = validated(tmp_path, field, "null")
    assert "Error: the reward `rhyme` of the distribution rhymes 1.2 declares parameters" in printed
    assert named in printed


def test_a_model_that_accepts_unknown_keys_is_refused(tmp_path: Path) -> None:
    printed = validated(tmp_path, "value: int", "'1'", "1", base="BaseModel")
    assert "Rhyme must be derived from posttrain.spec.extension.Params" in printed


def test_a_check_that_fails_names_the_parameters(tmp_path: Path) -> None:
    printed = validated(tmp_path, "value: str", "raise", "'a'")
    assert "Error: the parameters rhyme_op.Rhyme of an extension cannot be checked" in printed
    assert "RuntimeError: no connection" in printed


@pytest.mark.parametrize(
    ("module", "cause"),
    [
        ("1 / 0", "cannot be imported: ZeroDivisionError: division by zero"),
        ("import no_such_library", "cannot be imported: ModuleNotFoundError: No module named"),
        ("EXTENSION = 3", "`EXTENSION` of the module `rhyme_op` is no extension"),
        ("", "`EXTENSION` of the module `rhyme_op` is no extension"),
    ],
)
def test_an_extension_that_does_not_load_is_named(module: str, cause: str, tmp_path: Path) -> None:
    printed = validated(tmp_path, "value: int", "1", module=module)
    assert "Error: the reward `rhyme` of the distribution rhymes 1.2" in printed
    assert cause in printed
