from dataclasses import replace

from posttrain.runtime.engines.usage_log import EndpointUsage
from posttrain.runtime.report.api_usage_table import api_usage_table
from posttrain.runtime.report.timeline import timeline_section

PLANNED = {
    "endpoint": "critic",
    "price": {"input": 2.0, "output": 10.0, "source": "list price of 2026-03"},
    "calls_min": 100,
    "calls_max": 200,
    "input_tokens_min": 1000,
    "input_tokens_max": 9000,
    "output_tokens_min": 500,
    "output_tokens_max": 5000,
    "dollars_min": 0.01,
    "dollars_max": 0.07,
}
USED = EndpointUsage(requests=150, input_tokens=500_000, output_tokens=100_000)


def run_with(make, usage, *planned):
    run = make.run(make.step("check", "eval"))
    step = replace(run.steps[0], estimate={"api": list(planned)}, api_usage={"critic": usage})
    return replace(run, steps=(step,))


def test_measured_stands_with_planned(make):
    drawn = api_usage_table(run_with(make, USED, PLANNED))
    for text in ("150", "100 to 200", "500,000", "1,000 to 9,000", "$2.00", "$0.01 to $0.07"):
        assert text in drawn


def test_purposes_of_one_endpoint_are_summed(make):
    drawn = api_usage_table(run_with(make, USED, PLANNED, PLANNED))
    assert "200 to 400" in drawn
    assert drawn.count("critic") == 1


def test_without_a_price_the_tokens_are_shown(make):
    unpriced = {k: v for k, v in PLANNED.items() if k != "price" and not k.startswith("dollars")}
    drawn = api_usage_table(run_with(make, USED, unpriced))
    assert "500,000" in drawn
    assert "$" not in drawn


def test_requests_without_counts_are_named(make):
    assert "3 without token counts" in api_usage_table(run_with(make, EndpointUsage(requests=3, uncounted=3)))


def test_a_run_without_endpoints_has_no_such_table(make):
    run = make.run(make.step("sft"))
    assert api_usage_table(run) is None
    assert "API calls" not in str(timeline_section(run))


def test_the_report_has_the_table(make):
    assert "API calls, measured and planned" in str(timeline_section(run_with(make, USED, PLANNED)))


def test_a_plan_that_is_damaged_breaks_nothing(make):
    for odd in ("no", {"endpoint": "critic", "calls_min": "x", "price": 7}, {"price": {"input": None}}):
        assert "critic" in str(api_usage_table(run_with(make, USED, odd)))
