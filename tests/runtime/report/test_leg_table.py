"""The legs of a matrix in the report: values as columns, metrics with intervals side by side."""

import re
from dataclasses import replace
from typing import Any

import pytest

from posttrain.runtime.report.leg_table import leg_table, leg_values


def metric(value: float) -> dict[str, Any]:
    ends = {"low": value - 0.1, "high": value + 0.1}
    return {"metrics": {"accuracy": {"kind": "rate", "node": "right", "value": value, **ends, "items": 50}}}


def measured(make: Any, stage: str, leg: str, value: float | None) -> Any:
    step = make.step(f"{stage}@{leg}" if leg else stage, "eval", leg=leg)
    (record,) = make.run(step).steps
    return replace(record, state="failed") if value is None else replace(record, facts=metric(value))


def cells(markup: str) -> list[list[str]]:
    """The text of the cells of each row."""
    rows = re.findall(r"<tr>(.*?)</tr>", markup, re.DOTALL)
    return [
        [re.sub(r"<svg.*?</svg>|<[^>]+>", "", cell) for cell in re.findall(r"<t[hd][^>]*>.*?</t[hd]>", row)]
        for row in rows
    ]


def test_each_leg_is_a_row_with_all_metrics(make: Any) -> None:
    run = make.run(
        measured(make, "before", "", 0.2),
        measured(make, "check", "lr=0.1,seed=1", 0.5),
        measured(make, "check", "lr=0.1,seed=2", 0.6),
        measured(make, "check", "lr=0.2,seed=1", None),
        measured(make, "middle", "lr=0.1", 0.4),
        measured(make, "middle", "lr=0.2", 0.45),
    )
    found = leg_table(run)
    assert found is not None
    head, *rows = cells(found)
    assert head == ["lr", "seed", "before \u00b7 accuracy", "check \u00b7 accuracy", "middle \u00b7 accuracy"]
    shared = "0.2000.100 \u2013 0.300"
    assert rows == [
        ["0.1", "1", shared, "0.5000.400 \u2013 0.600", "0.4000.300 \u2013 0.500"],
        ["0.1", "2", shared, "0.6000.500 \u2013 0.700", "0.4000.300 \u2013 0.500"],
        ["0.2", "1", shared, "failed", "0.4500.350 \u2013 0.550"],
    ]
    assert "3 legs" in found


def test_a_run_without_a_matrix_has_no_table(make: Any) -> None:
    assert leg_table(make.run(measured(make, "check", "", 0.5), measured(make, "later", "", 0.5))) is None
    assert leg_table(make.run()) is None


@pytest.mark.parametrize(
    ("leg", "values"),
    [
        ("", {}),
        ("lr=0.1,seed=2", {"lr": "0.1", "seed": "2"}),
        ("model=org/a,b=c=d", {"model": "org/a", "b": "c=d"}),
        ("words=a, b,n=1", {"words": "a, b", "n": "1"}),
        ("<b>=<i>", {"<b>": "<i>"}),
    ],
)
def test_the_values_of_a_leg(leg: str, values: dict[str, str]) -> None:
    assert leg_values(leg) == values


def test_many_legs_scroll_and_hostile_values_are_text(make: Any) -> None:
    run = make.run(*(measured(make, "check", f"n={n},text=<script>", 0.5) for n in range(400)))
    found = leg_table(run)
    assert found is not None
    assert "100 more legs not shown" in found
    assert "scroll tall" in found
    assert "<script>" not in found
