"""In-loop evaluations generate with all processes, and give what one process gives."""

import json
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.runtime.engines.sampling_values import greedy_sampling

from posttrain.runtime.chat_prompts import Prompt
from posttrain.runtime.engines.transformers_generator import TransformersGenerator
from posttrain.runtime.engines.vllm import VllmGenerator
from posttrain.runtime.training.inloop_generation import is_adapter_sharded, open_generator
from posttrain.spec.plan import Launch
from posttrain.spec.step_params.generation_params import SamplingOptions

PROMPTS: list[Prompt] = [f"{n}+{n * 7 % 13}=" for n in range(7)]
SAMPLED = {"temperature": 1.0, "n": 2}


class Trainer:
    def __init__(self, model: Any) -> None:
        self.model = model


def run_rank(
    rank: int, world: int, folder: Path, model: Any, tokenizer: Any, options: dict[str, Any]
) -> None:
    """One process of an evaluation. Rank 0 generates twice, as for two evals."""
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(world)}
    torch.set_num_threads(1)
    if world > 1:
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{folder / 'group'}", rank=rank, world_size=world
        )
    sampling = SamplingOptions(**greedy_sampling(max_tokens=12, **options))
    batches: list[int] = []
    original = TransformersGenerator._generate_batch

    def counted(self: Any, prompts: Any, *rest: Any) -> Any:
        batches.append(len(prompts))
        return original(self, prompts, *rest)

    TransformersGenerator._generate_batch = counted
    torch.manual_seed(rank)  # the random state of the process does not matter
    found: list[Any] = []
    with open_generator(Trainer(model), tokenizer, Launch(processes=world)) as generator:
        if rank == 0:
            for prompts in (PROMPTS, PROMPTS[:1]):
                answers = generator.generate(prompts, sampling, 5)
                found.append([[(one.text, one.tokens, one.finish) for one in row] for row in answers])
            generator.finish()
        else:
            generator.serve()
    (folder / f"{rank}.json").write_text(json.dumps({"batches": batches, "found": found}))


def run_world(world: int, tmp_path: Path, tiny_model: Path, **options: Any) -> list[dict[str, Any]]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = tmp_path / f"world-{world}"
    folder.mkdir()
    model: Any = AutoModelForCausalLM.from_pretrained(tiny_model)
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    fork = multiprocessing.get_context("fork")
    ranks = [
        fork.Process(target=run_rank, args=(rank, world, folder, model, tokenizer, options))
        for rank in range(world)
    ]
    for one in ranks:
        one.start()
    for one in ranks:
        one.join(120)
    assert [one.exitcode for one in ranks] == [0] * world
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(world)]


@pytest.mark.parametrize("sampled", [{}, SAMPLED], ids=["greedy", "sampled"])
def test_several_processes_give_what_one_gives(sampled: Any, tmp_path: Path, tiny_model: Path) -> None:
    """Four batches, the last one of a single prompt; then one batch for all processes."""
    alone = run_world(1, tmp_path, tiny_model, batch_size=2, **sampled)[0]
    assert alone["batches"] == [2, 2, 2, 1, 1]
    for world in (2, 3):
        ranks = run_world(world, tmp_path, tiny_model, batch_size=2, **sampled)
        assert ranks[0]["found"] == alone["found"]
        assert sorted(size for one in ranks for size in one["batches"]) == sorted(alone["batches"])
        assert all(one["batches"] for one in ranks), "a process generates nothing"


def test_more_processes_than_batches(tmp_path: Path, tiny_model: Path) -> None:
    alone = run_world(1, tmp_path, tiny_model, batch_size=4, **SAMPLED)[0]
    ranks = run_world(3, tmp_path, tiny_model, batch_size=4, **SAMPLED)
    assert ranks[0]["found"] == alone["found"]
    assert [one["batches"] for one in ranks] == [[4, 1], [3], []]


class FakeVllm:
    """Records which prompts vLLM generates from, and their seeds."""

    SamplingParams = staticmethod(lambda **given: given)
    TokensPrompt = staticmethod(lambda **given: given["prompt_token_ids"])

    def __init__(self) -> None:
        self.seeds: dict[tuple[int, ...], int] = {}

    def generate(self, prompts: Any, sampling: Any, use_tqdm: bool) -> list[Any]:
        from types import SimpleNamespace

        for tokens, params in zip(prompts, sampling, strict=True):
            self.seeds[tuple(tokens)] = params["seed"]
        one = SimpleNamespace(text="7", token_ids=[9], finish_reason="stop", stop_reason=None)
        return [SimpleNamespace(outputs=[one] * params["n"]) for params in sampling]


def test_the_shares_of_vllm_are_prompts_with_their_own_seeds(tiny_model: Path) -> None:
    from transformers import AutoTokenizer

    from posttrain.runtime.engines.completion_log import CompletionLog
    from posttrain.runtime.engines.engine_protocol import GenerationRequest, Share
    from posttrain.runtime.step_context import StopRequest

    def seeds(*shares: Share) -> list[dict[tuple[int, ...], int]]:
        found: list[dict[tuple[int, ...], int]] = []
        for share in shares:
            vllm = FakeVllm()
            request = GenerationRequest(
                prompts=PROMPTS,
                sampling=SamplingOptions(**greedy_sampling(**SAMPLED)),
                seed=5,
                log=CompletionLog(None, PROMPTS, 2),
                progress=lambda _done, _total: None,
                stop=StopRequest(),
                share=share,
            )
            VllmGenerator(vllm, vllm, AutoTokenizer.from_pretrained(tiny_model), {}).fill_log(request)
            assert request.log.count == 2 * len(vllm.seeds)
            found.append(vllm.seeds)
        return found

    (whole,) = seeds(Share())
    assert len(set(whole.values())) == len(PROMPTS)
    parts = seeds(*(Share(index, 3) for index in range(3)))
    assert [len(part) for part in parts] == [3, 2, 2]
    assert {tokens: seed for part in parts for tokens, seed in part.items()} == whole


def test_a_sync_that_would_change_sharded_weights_is_avoided() -> None:
    plain: Any = torch.nn.Linear(1, 1)
    adapted: Any = torch.nn.Linear(1, 1)
    adapted.peft_config = {}
    found = [
        is_adapter_sharded(model, strategy)
        for model in (plain, adapted)
        for strategy in ("ddp", "zero2", "zero3", "fsdp")
    ]
    assert found == [False] * 4 + [False, False, True, True]
