"""Differences of the steps of two plans, which can come from a file of another program."""

from tests.runtime.report.conftest import make_step

from posttrain.compiler.diff.step_diff import step_differences
from posttrain.compiler.diff.value_diff import Difference


def test_parameters_that_are_not_a_mapping_are_a_difference() -> None:
    before, after = make_step("sft", params="x"), make_step("sft", params={"seed": 1})
    found = step_differences(before, after, (1, 1), lambda *_: True)
    assert found == [Difference(("stages", "sft", "params"), "x", {"seed": 1})]
