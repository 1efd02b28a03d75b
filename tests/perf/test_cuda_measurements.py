"""The parts of the GPU measurements that measure run on a CPU: memory, speed, several processes."""

from pathlib import Path

import pytest
from tests.perf.cuda_runs import cells, run_dry, table

pytestmark = pytest.mark.slow


def test_memory_is_compared_term_by_term(tmp_path: Path) -> None:
    found = run_dry("memory", tmp_path)
    peaks = cells(table(found, "Peaks"), "error")
    assert set(peaks) == {"sft_small_full", "grpo_small_full", "sft_medium_qlora_long"}
    # The prediction counts tensors as the CPU run does, so the hooks measure what it predicts.
    terms = {(row[0], row[1]): row for row in table(found, "Terms").rows}
    for stage in ("sft_small_full", "grpo_small_full"):
        for term in ("weights", "gradients", "saved activations", "forward", "backward"):
            _, _, predicted, measured, error = terms[stage, term]
            assert float(predicted) > 0
            assert float(measured) > 0
            assert abs(float(error.rstrip("%"))) < 8, (stage, term, error)


def test_speed_is_compared_with_a_trl_script(tmp_path: Path) -> None:
    found = run_dry("speed", tmp_path)
    speed = table(found, "Speed")
    compared = {name: verdict for name, verdict in cells(speed, "losses").items() if name.endswith("_equal")}
    assert compared == dict.fromkeys(("sft_equal", "dpo_equal", "grpo_equal"), "identical")
    rates = cells(speed, "tokens/s")
    assert float(rates["sft_packing"]) > 0
    assert "needs a GPU" in cells(speed, "micro-batch")["sft_liger"]
    profile = table(found, "Where the time of a step goes")
    seconds = {row[1]: float(row[2]) for row in profile.rows}
    assert 0 < seconds["matrix products"] < seconds["whole step"]
    assert seconds["optimizer"] > 0


def test_two_processes_train_and_a_missing_engine_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no-engine.sock")
    found = run_dry("sharing", tmp_path)
    processes = table(found, "Two processes on one card, over gloo")
    assert cells(processes, "ended") == {"sft": "yes", "grpo": "yes"}
    assert cells(processes, "losses")["sft"].partition(",")[0] in ("identical", "within")
    # tests/containers runs this step where there is an engine.
    container = cells(table(found, "A step in a container"), "ended")
    assert container["posttrain-cpu:latest"].startswith("not run: no Docker engine")
