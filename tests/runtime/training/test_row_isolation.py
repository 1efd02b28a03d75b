"""Packed rows and padding: which families keep rows apart, and the checks before the first step."""

import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.runtime.test_prompt_tokenization import SAMPLING

from posttrain.runtime.errors import StepError
from posttrain.runtime.models.output_changes import probe_rows
from posttrain.runtime.training.row_isolation import check_padding, check_row_isolation
from posttrain.spec.architectures.model_shapes import architecture_names, find_architecture


@pytest.fixture(scope="module")
def measured() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[3] / "perf")
        return importlib.import_module("row_isolation")


@pytest.mark.parametrize("family", architecture_names())
def test_the_table_says_which_families_keep_rows_apart(family: str, measured: Any):
    architecture = find_architecture(family)
    assert architecture is not None
    models = [measured.tiny_model(family, attention) for attention in ("sdpa", "eager")]
    found = [measured.keeps_apart(measured.isolation(model)) for model in models if model is not None]
    assert found
    assert set(found) == {architecture.isolates_rows}


class Tokenizer:
    all_special_ids = (0, 1)

    def get_vocab(self) -> dict[str, int]:
        return {str(number): number for number in range(97)}


class Decoder(Tokenizer):
    pad_token_id, eos_token_id = 0, 96


def trainer_of(model: Any) -> Any:
    from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

    return SimpleNamespace(
        model=model,
        model_wrapped=model,
        data_collator=DataCollatorForLanguageModeling(pad_token_id=0, padding_free=True),
        processing_class=Tokenizer(),
        args=SimpleNamespace(bf16=False, fp16=False),
    )


@pytest.mark.parametrize("family", ["lfm2", "mamba2", "qwen3_next", "mpt"])
def test_a_family_that_the_compiler_does_not_know_is_measured(family: str, measured: Any):
    model = measured.tiny_model(family, "eager").train()
    with pytest.raises(StepError, match=f"`{family}`.* does not keep packed rows apart"):
        check_row_isolation(trainer_of(model))
    assert model.training


@pytest.mark.parametrize("family", ["qwen2", "qwen3_moe", "gpt2", "gemma3_text"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_model_that_keeps_rows_apart_is_accepted(family: str, dtype: Any, measured: Any):
    model = measured.tiny_model(family, "sdpa").to(dtype)
    before = torch.get_rng_state()
    check_row_isolation(trainer_of(model))
    assert torch.equal(before, torch.get_rng_state())


def test_the_leak_of_usual_initial_weights_is_found():
    """Small random weights leak little: less than 1 % of the standard deviation."""
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    config = AutoConfig.for_model("bloom", vocab_size=97, hidden_size=64, n_layer=2, n_head=4)
    for dtype in (torch.float32, torch.bfloat16):
        model = AutoModelForCausalLM.from_config(config).to(dtype)
        with pytest.raises(StepError, match="does not keep packed rows apart"):
            check_row_isolation(trainer_of(model))


@pytest.mark.parametrize("family", ["recurrent_gemma", "rwkv"])
def test_a_model_that_reads_padding_is_rejected(family: str, measured: Any):
    model = measured.initial_model(family).train()
    with pytest.raises(StepError, match=f"`{family}`.* reads the padding of prompts"):
        check_padding(trainer_of(model))
    assert model.training


@pytest.mark.parametrize(
    "family", ["qwen2", "qwen3_moe", "gpt2", "bloom", "qwen3_next", "mamba2", "lfm2", "opt"]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_model_that_hides_padding_is_accepted(family: str, dtype: Any, measured: Any):
    check_padding(trainer_of(measured.tiny_model(family, "eager").to(dtype)))


@pytest.mark.parametrize("family", ["recurrent_gemma", "rwkv", "gpt2"])
def test_prompts_of_different_lengths_do_not_change_completions(family: str, measured: Any):
    from posttrain.runtime.engines.transformers_generator import TransformersGenerator

    generator: Any = TransformersGenerator(measured.tiny_model(family, "eager"), Decoder())
    prompts = [[5, 9, 4], [8, 2, 7, 60, 33, 12, 40], [11], [14, 3, 5]]
    together = generator._generate_tokens(prompts, SAMPLING, 1)
    alone = [row for prompt in prompts for row in generator._generate_tokens([prompt], SAMPLING, 1)]
    assert together == alone
    drawn = generator._generate_tokens(prompts, SAMPLING.model_copy(update={"n": 2, "temperature": 1e-6}), 1)
    assert drawn == [row for row in alone for _ in range(2)]


def test_the_rows_of_the_measurement_differ_in_every_place():
    first, other, row = probe_rows(Tokenizer())
    assert all(one != two for one, two in zip(first, other, strict=True))
    assert not {0, 1} & {*first, *other, *row}


@pytest.mark.parametrize("family", ["bloom", "falcon", "gptj"])
def test_continuous_batching_is_refused_for_attention_that_would_mix_rows(family: str, measured: Any):
    from posttrain.runtime.engines.continuous_batching import generate_continuous

    model = measured.tiny_model(family, "eager")
    with pytest.raises(StepError, match="does not support continuous batching"):
        generate_continuous(model, Decoder(), [[5, 9, 4], [8, 2]], SAMPLING, 1)
