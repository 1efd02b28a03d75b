"""The vLLM server of a stage with a real vLLM on a CPU, except for the weight transfer, which needs NCCL."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.recipe_command import wait_until
from tests.runtime.distributed import test_vllm_server as unserved
from tests.runtime.distributed.vllm_on_cpu import vllm_path
from tests.runtime.engines.conftest import tiny_model

from posttrain.runtime.distributed import vllm_server
from posttrain.runtime.step_context import StepContext

__all__ = ["tiny_model", "vllm_path"]
pytestmark = pytest.mark.slow

PROMPTS = [[2, 3, 12], [4, 5, 12]]
ROOM = 64


def context_in(work: Path, model: Path) -> StepContext:
    context = unserved.context_in(work)
    how = {"mode": "server", "gpus": 1, "tensor_parallel_size": 1, "gpu_memory_utilization": 0.5}
    step = replace(context.step, launch=replace(context.step.launch, rollouts=how))
    return replace(context, step=step, inputs={"model": model})


def server_processes(work: Path) -> list[str]:
    """The command lines of a server's processes, found by the folder of its log."""
    found: list[str] = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            log = (place / "fd/1").readlink()
            if log == work / "record" / vllm_server.LOG:
                found.append((place / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def test_vllm_serves_by_our_command_what_trl_asks_of_it(
    tiny_model: Path, tmp_path: Path, vllm_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", vllm_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")  # which do not exist here
    monkeypatch.setenv("VLLM_HOST_IP", "")
    context = context_in(tmp_path, tiny_model)
    with vllm_server.run_vllm_server(context, ROOM, 0) as arguments:
        client: Any = import_module("trl.generation.vllm_client").VLLMClient(
            base_url=arguments["vllm_server_base_url"], group_port=arguments["vllm_group_port"]
        )
        model = client.get_server_info()["model_config"]
        assert (model["max_model_len"], model["logprobs_mode"]) == (ROOM, "processed_logprobs")
        assert client.get_world_size() == 1
        greedy = client.generate(PROMPTS, temperature=0.0, max_tokens=6)
        assert greedy["completion_ids"] == generate_with_transformers(tiny_model, 6)
        ends = [greedy["completion_ids"][0][2]]
        ended = client.generate(
            PROMPTS[:1], temperature=0.0, max_tokens=6, generation_kwargs={"stop_token_ids": ends}
        )
        assert ended["completion_ids"] == [greedy["completion_ids"][0][:3]]
        drawn = client.generate(PROMPTS, n=4, max_tokens=6)
        assert len({str(one) for one in drawn["completion_ids"]}) > 4
        client.reset_prefix_cache()
        client._start_weight_update()
        client._finish_weight_update()
        # Not possible on a CPU. A trainer sends all the requests above on GPUs as well.
        with pytest.raises(NotImplementedError, match="needs a CUDA device"):
            client.init_communicator("cpu")
        assert any("EngineCore" in line for line in server_processes(tmp_path))
    wait_until(lambda: server_processes(tmp_path) == [], "the end of the server's processes")


def generate_with_transformers(folder: Path, tokens: int) -> list[list[int]]:
    import torch
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    found = [model.generate(torch.tensor([one]), do_sample=False, max_new_tokens=tokens) for one in PROMPTS]
    return [one[0, len(PROMPTS[0]) :].tolist() for one in found]


KILL_ENGINE_SCRIPT = """\
import os, signal, sys, threading, urllib.request
from pathlib import Path
from posttrain.runtime.distributed import vllm_server
from tests.runtime.distributed.test_vllm_server_live import ROOM, context_in

work = Path(sys.argv[1])
vllm_server._GRACE_SECONDS = 0.5
with vllm_server.run_vllm_server(context_in(work, Path(sys.argv[2])), ROOM, 0):
    for place in Path("/proc").glob("[0-9]*"):
        if (place / "comm").read_text().startswith("VLLM::Engine"):
            session = int((place / "stat").read_text().rpartition(")")[2].split()[3])
            parent = int((place.parent / str(session) / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid():
                os.kill(int(place.name), signal.SIGKILL)
    os.read(os.pipe()[0], 1)  # as NCCL waits for one that is gone: for good
"""


def test_a_server_that_loses_its_engine_ends_the_stage(
    tiny_model: Path, tmp_path: Path, vllm_path: str
) -> None:
    given = {**os.environ, "PYTHONPATH": vllm_path, "CUDA_VISIBLE_DEVICES": "0,1"}
    line = [sys.executable, "-c", KILL_ENGINE_SCRIPT, str(tmp_path), str(tiny_model)]
    done = subprocess.run(line, env=given, timeout=600, check=False)
    assert done.returncode == 1
    failure = json.loads((tmp_path / "failure.json").read_text())
    assert failure["message"] == "the vLLM server exited because its engine died"
    assert failure["retriable"] is True
    wait_until(lambda: server_processes(tmp_path) == [], "the end of the server's processes")
