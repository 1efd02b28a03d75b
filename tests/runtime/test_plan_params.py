"""Steps that are damaged or from another version: the error names the field."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.compiler.test_plan_keys import plan_of

from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.runtime.errors import StepError
from posttrain.runtime.plan_params import read_step, read_step_params
from posttrain.spec.plan import Step
from posttrain.spec.step_params.train_params import TrainStepParams


def step_of(name: str) -> Step:
    return plan_of(minimal_recipe()).step(name)


@pytest.mark.parametrize("name", ["models.base", "datasets.sums", "sft", "check"])
def test_parameters_are_written_as_they_are_read(name: str) -> None:
    step = step_of(name)
    assert read_step_params(step).dump() == step.params


@pytest.mark.parametrize(
    ("name", "change", "field"),
    [
        ("sft", {"seed": "1"}, "`seed`"),
        ("sft", {"sed": 1}, "`sed`: unknown key"),
        ("check", {"sampling": {}}, "`sampling.temperature`: field required"),
        ("datasets.sums", {"operations": [{"op": "sql"}]}, "`operations.0.sql.query`: field required"),
        ("models.base", {"dtype": "int4"}, "`dtype`"),
    ],
)
def test_a_wrong_field_is_named(name: str, change: dict[str, Any], field: str) -> None:
    step = step_of(name)
    with pytest.raises(StepError) as raised:
        read_step_params(step.model_copy(update={"params": {**step.params, **change}}))
    assert field in str(raised.value)
    assert f"the step `{name}`" in str(raised.value)


def test_a_missing_field_is_named() -> None:
    step = step_of("sft")
    rest = {name: value for name, value in step.params.items() if name != "prompts"}
    with pytest.raises(StepError, match="`prompts`: field required"):
        read_step_params(step.model_copy(update={"params": rest}))


def test_a_damaged_step_names_the_field(tmp_path: Path) -> None:
    (tmp_path / "step.json").write_text(json.dumps({**step_of("sft").model_dump(), "attempts": "many"}))
    with pytest.raises(StepError, match="`attempts`"):
        read_step(tmp_path / "step.json")


def test_a_misspelt_field_fails_where_it_is_written() -> None:
    params = read_step_params(step_of("sft"))
    assert isinstance(params, TrainStepParams)
    with pytest.raises(ValueError, match="promts"):
        params.with_fields(promts="chat")
