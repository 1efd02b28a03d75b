"""The dollars and tokens of steps, from what was measured and the prices of the plan."""

import re
from dataclasses import replace

import pytest

from posttrain.runtime.engines.usage_log import EndpointUsage
from posttrain.runtime.report.expected_vs_measured import estimates_table
from posttrain.runtime.report.number_format import format_cost
from posttrain.runtime.report.run_costs import hardware_rate, run_spending, step_spending
from posttrain.runtime.report.run_record import StepEvents
from posttrain.runtime.report.run_summary import summary_cards
from posttrain.runtime.report.step_sums import StepProgress

# 8 GPUs at $2.50 an hour for two hours, in two parts.
PARTS = [
    {"name": "startup", "seconds": 1800.0, "dollars": 10.0},
    {"name": "training", "seconds": 5400.0, "dollars": 30.0},
]
TRAINED = {"seconds": 7200, "seconds_min": 3600, "seconds_max": 9000, "dollars": 40.0, "parts": PARTS}
CRITIC = {"endpoint": "critic", "price": {"input": 2.0, "output": 10.0}, "dollars_min": 1, "dollars_max": 3}
USED = EndpointUsage(requests=100, input_tokens=500_000, output_tokens=100_000)


@pytest.fixture
def run(make):
    """A training of 3 hours with 1.2 M tokens, an eval of 10 seconds with a judge, and a cached eval."""
    found = make.run(make.step("sft"), make.step("check", "eval"), make.step("before", "eval"))
    sft, check, before = found.steps
    progress = StepProgress(tokens=((1.0, 700_000.0), (2.0, 1_200_000.0)))
    return replace(
        found,
        steps=(
            replace(sft, began=0.0, ended=10_800.0, estimate=TRAINED, events=StepEvents(progress=progress)),
            replace(check, estimate={"dollars": 2.0, "api": [CRITIC]}, api_usage={"critic": USED}),
            replace(before, state="cached", estimate=TRAINED, cost={"seconds": 7200.0}),
        ),
    )


def test_hardware_costs_its_price_for_the_measured_time(run):
    spent = step_spending(run.steps[0], {"gpus": "8xH100"})
    assert spent.total == pytest.approx(3 * 8 * 2.5)
    assert spent.complete


def test_endpoints_cost_their_tokens(run):
    spent = step_spending(run.steps[1], {})
    assert (spent.hardware, spent.api) == (0.0, pytest.approx(0.5 * 2 + 0.1 * 10))


def test_a_run_pays_only_for_what_it_executed(run):
    assert run_spending(run).total == pytest.approx(62.0)
    assert "$62.00 at the prices of the plan" in summary_cards(run)


def test_a_machine_without_gpus_has_the_price_of_the_recipe(make):
    record = replace(make.run(make.step("sft")).steps[0], began=0.0, ended=1800.0)
    assert step_spending(record, {"price_per_hour": 0.4}).total == pytest.approx(0.2)
    assert step_spending(record, {"price_per_hour": 0.4, "gpus": "A100"}) is None
    assert step_spending(record, {}) is None


def test_an_endpoint_without_a_price_makes_a_lower_bound(run):
    both = {"critic": USED, "other": EndpointUsage(requests=1, input_tokens=5)}
    spent = step_spending(replace(run.steps[1], api_usage=both), {})
    assert (spent.complete, spent.api) == (False, pytest.approx(2.0))
    steps = (run.steps[0], replace(run.steps[1], api_usage=both))
    assert "at least $62.00" in estimates_table(replace(run, steps=steps))


def rows(drawn):
    """The cells of each row, as text."""
    plain = [re.split("</t[dh]>", row)[:-1] for row in re.findall("<tr>(.*?)</tr>", drawn)]
    return [[re.sub("<[^>]*>", "", cell).strip() for cell in row] for row in plain]


def test_the_table_compares_each_step_and_sums_the_run(run):
    head, sft, check, before, total = rows(estimates_table(run))
    columns = [("Time", 1), ("Tokens", 7), ("Cost", 8), ("Expected", 9), ("Compared", 10)]
    assert [head[place] for _, place in columns] == [name for name, _ in columns]
    assert [sft[place] for _, place in columns] == ["3 h 00 min", "1,200,000", "$60.00", "$40.00", "1.5x"]
    assert [check[place] for _, place in columns] == [
        "10.0 s",
        "600,000 of endpoints",
        "$2.00",
        "$2.00",
        "1x",
    ]
    assert before[0] == "before \u00b7 cached"
    assert [total[0], total[1], *total[5:]] == [
        "Total of this run",
        "3 h 00 min",
        "1,800,000",
        "$62.00",
        "$42.00",
        "1.5x",
    ]


@pytest.mark.parametrize(
    "parts",
    [None, "no", [1], [{"dollars": "x"}], [{"seconds": 0, "dollars": 1}], [{"seconds": float("nan")}]],
)
def test_odd_parts_have_no_price(run, parts):
    record = replace(run.steps[0], estimate={"parts": parts})
    assert hardware_rate(record, {}) is None


@pytest.mark.parametrize(
    ("dollars", "text"), [(0.0, "$0.00"), (0.000441, "$0.00044"), (1.005, "$1.00"), (12_345.6, "$12,346")]
)
def test_dollars_are_short(dollars, text):
    assert format_cost(dollars) == text
