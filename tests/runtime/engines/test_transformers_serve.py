"""The engine for endpoints, with a real model server: `transformers serve`."""

import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.conftest import require_service
from tests.recipe_command import wait_until
from tests.runtime.engines.sampling_values import greedy_sampling

from posttrain.runtime.chat_prompts import Prompt
from posttrain.runtime.engines.completion_log import Completion, CompletionLog
from posttrain.runtime.engines.engine_protocol import GenerationRequest
from posttrain.runtime.engines.http_generator import HttpGenerator
from posttrain.runtime.engines.transformers_generator import generate
from posttrain.runtime.step_context import StopRequest
from posttrain.spec.step_params.generation_params import SamplingOptions

SAMPLING = greedy_sampling()


@pytest.fixture(scope="module")
def served(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with this model."""
    missing = [name for name in ("fastapi", "uvicorn", "openai") if find_spec(name) is None]
    require_service("transformers serve", None if missing else True, f"pip install {' '.join(missing)}")
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    log = tmp_path_factory.mktemp("server") / "log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "transformers.cli.transformers",
                "serve",
                str(tiny_model),
                "--host",
                "127.0.0.1",
                "--port",
                str(port),
                "--device",
                "cpu",
            ],
            stdout=output,
            stderr=output,
            env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        )
    try:
        wait_until(lambda: _healthy(port), f"the server to answer ({log})", server)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.kill()
        server.wait()


def _healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=60) as answer:
            return answer.status == 200
    except OSError:
        return False


@pytest.mark.slow
def test_it_writes_what_the_model_writes_here(tiny_model: Path, served: str, tmp_path: Path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    texts = ["1+2", "3+4", "5+6", "a b c"]
    here = generate(
        AutoModelForCausalLM.from_pretrained(tiny_model),
        tokenizer,
        [[{"role": "user", "content": text}] for text in texts],
        SamplingOptions(**SAMPLING),
        1,
        lambda _done, _total: None,
    )
    where = {
        "provider": "openai",
        "model": str(tiny_model),
        "base_url": served,
        "api_key": None,
        "concurrency": 2,
        "max_retries": 1,
        "timeout_seconds": 600.0,
    }
    chat: list[Prompt] = [[{"role": "user", "content": text}] for text in texts]
    found = _written(where, chat, tmp_path / "chat.jsonl")
    assert _told(found) == _told(here)
    plain: list[Prompt] = [text + "=" for text in texts]
    assert _told(_written(where, plain, tmp_path / "plain.jsonl")) == _told(here)


def _written(where: dict[str, object], prompts: list[Prompt], path: Path) -> list[list[Completion]]:
    kept = CompletionLog(path, prompts, 1)
    order = GenerationRequest(
        prompts=prompts,
        sampling=SamplingOptions(**SAMPLING),
        seed=1,
        log=kept,
        progress=lambda _done, _total: None,
        stop=StopRequest(),
    )
    return HttpGenerator(where).generate(order)


def _told(found: list[list[Completion]]) -> list[tuple[str | None, str]]:
    return [(one.text, one.finish) for completions in found for one in completions]
