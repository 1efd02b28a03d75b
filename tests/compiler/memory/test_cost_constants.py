"""The table of the constants of the estimates: complete, with sources, and read for each card."""

import copy
import re

import pytest
from tests.recipe_command import ROOT

from posttrain.compiler.facts import cost_constants as module
from posttrain.compiler.facts.accelerators import Device, accelerator_names, find_accelerator
from posttrain.compiler.facts.cost_constants import Bounds, cost_constants
from posttrain.compiler.facts.fact_tables import load_table
from posttrain.compiler.facts.published_shapes import find_shape
from posttrain.compiler.memory.duration import ExpectedWork, estimate_duration
from posttrain.compiler.memory.memory_estimate import estimate_memory
from posttrain.compiler.memory.workload import Workload

TABLE = load_table("cost_constants")
ROWS = {"gpu": TABLE["gpu"], "cpu": TABLE["cpu"], **TABLE["cards"]}


def card(name: str) -> Device:
    found = find_accelerator(name)
    assert found is not None
    return found


@pytest.mark.parametrize("name", accelerator_names())
def test_every_device_has_every_constant(name: str) -> None:
    found = cost_constants(card(name))
    assert all(isinstance(value, Bounds | float) for value in found)
    slower = ("layer_launch_seconds", "layer_decode_seconds", "layer_decode_seconds_vllm")
    for field, value in found._asdict().items():
        if isinstance(value, Bounds) and field not in (*slower, "process_start_seconds"):
            assert 0 < value.worst <= value.best, field
        elif isinstance(value, Bounds):
            assert value.worst >= value.best, field


def test_every_value_has_a_source_and_overrides_a_known_constant() -> None:
    assert set(TABLE) == {"gpu", "cpu", "cards"}
    assert set(TABLE["cards"]) <= set(accelerator_names()) - {"CPU"}
    for name, row in ROWS.items():
        assert set(row) <= set(TABLE["gpu"]), name
        for constant, entry in row.items():
            assert set(entry) == {"value", "source"}, (name, constant)
            assert len(entry["source"]) > 5, (name, constant)


def test_no_source_claims_a_measurement_without_a_page() -> None:
    for name, row in ROWS.items():
        for constant, entry in row.items():
            if entry["source"].startswith("measured"):
                page = re.search(r"perf/cuda/results/\w+\.md", entry["source"])
                assert page is not None, (name, constant)
                assert (ROOT / page[0]).is_file(), (name, constant)


def test_a_row_of_a_card_changes_the_estimates_of_that_card(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = find_shape("Qwen/Qwen2.5-7B")
    assert shape is not None
    workload = Workload(model=shape, rows=8, length=2048, element=4)
    one, other = card("H200"), card("H100")
    work = ExpectedWork(10, 1024)
    before = {
        device.name: (estimate_memory(workload, device).total, estimate_duration(workload, device, work))
        for device in (one, other)
    }
    table = copy.deepcopy(TABLE)
    table["cards"]["H200-141GB"] = {
        "context_gib": {"value": 1.6, "source": "a test"},
        "mfu_full": {"value": [0.5, 0.6], "source": "a test"},
    }
    monkeypatch.setattr(module, "load_table", lambda _name: table)
    module._find_constants.cache_clear()
    try:
        memory, duration = (
            estimate_memory(workload, one).total,
            estimate_duration(workload, one, work),
        )
        assert memory - before[one.name][0] == pytest.approx(2**30, abs=2)
        assert duration.max_seconds == pytest.approx(before[one.name][1].max_seconds * 0.35 / 0.5)
        unchanged = estimate_memory(workload, other).total, estimate_duration(workload, other, work)
        assert unchanged == before[other.name]
    finally:
        module._find_constants.cache_clear()
