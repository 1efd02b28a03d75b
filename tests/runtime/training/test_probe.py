"""`recipe probe`: statistics over sampled completions, and the command on a real run."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.recipe_command import TINY_RECIPE, run_command, start_command, wait_until

from posttrain.runtime.training.probe import ProbeOptions, probe_sampling, probe_statistics


def row(item: int, text: str, reward: float | None, finish: str = "stop") -> dict[str, Any]:
    return {"item": item, "completion": text, "finish": finish, "tokens": len(text), "node:right": reward}


def test_figures_tell_shares_and_what_could_be_learnt() -> None:
    flat = [
        row(0, "<a>1", 1.0),
        row(0, "<a>1", 0.0, "length"),
        row(1, "2", 0.5),
        row(1, "<a>3", None),
    ]
    statistics = probe_statistics(flat, ["right"], "right", ["<a>", "</a>"])
    assert statistics["ended"] == 0.75
    assert statistics["distinct"] == 0.75  # half for the first prompt, all for the second
    assert statistics["tags"] == {"<a>": 0.75, "</a>": 0.0}
    assert statistics["nodes"]["right"]["mean"] == 0.5
    assert (
        statistics["nodes"]["right"]["std_within_prompt"] == 0.25
    )  # 0.5 within the first prompt, 0 within the second
    assert statistics["nodes"]["right"]["unscored"] == 0.25
    assert statistics["varied"] == 0.5


def test_completions_are_drawn_as_the_stage_draws_them() -> None:
    params = {"temperature": 0.7, "top_p": 0.9, "max_completion_length": 12}
    assert probe_sampling(params, ProbeOptions(), 99).temperature == 0.7
    assert probe_sampling(params, ProbeOptions(temperature=0.0, max_tokens=3), 99).max_tokens == 3
    assert probe_sampling(params, ProbeOptions(temperature=0.0), 99).temperature == 0.0
    assert probe_sampling({"min_p": None}, ProbeOptions(), 999).max_tokens == 256
    assert probe_sampling({}, ProbeOptions(), 99).max_tokens == 99


@pytest.mark.slow
def test_a_stage_under_way_and_a_finished_one_are_probed(tmp_path: Path) -> None:
    long = ("--set", "stages.grpo.params.max_steps=3000", "--set", "stages.grpo.params.save_total_limit=9999")
    client = start_command("run", TINY_RECIPE, "--home", tmp_path, *long, log=tmp_path / "log")
    try:
        wait_until(lambda: any(tmp_path.glob("work/*/checkpoints/*/complete.json")), "a checkpoint", client)
        wait_until(
            lambda: run_command("path", "before", "--home", tmp_path).returncode == 0, "the eval", client
        )
        sealed = "work/*/checkpoints/checkpoint-3/complete.json"
        wait_until(lambda: any(tmp_path.glob(sealed)), "a checkpoint of grpo", client)
        probed = run_command("probe", "grpo", "--home", tmp_path, "--format", "json", "--samples", "2")
    finally:
        client.kill()
        client.wait()
    assert probed.returncode == 0, probed.stderr
    report = json.loads(probed.stdout)
    assert report["from"].startswith("checkpoint-")
    assert report["sampling"]["max_tokens"] == 6
    assert report["tags"].keys() == {"<answer>", "</answer>"}
    assert len(report["samples"]) == 16
    assert report["nodes"].keys() >= {"format", "right"}

    finished = run_command("probe", "sft", "--home", tmp_path, "--max-tokens", "1")
    assert finished.returncode == 0, finished.stderr
    assert "0% not truncated" in finished.stdout
    assert "every completion was truncated at the length limit" in finished.stdout
    assert run_command("probe", "gropo", "--home", tmp_path).returncode == 2
