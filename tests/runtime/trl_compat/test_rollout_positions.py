"""The log-probabilities of GRPO and RLOO are those of the sampled completions, whatever the padding."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.runtime.small_tokenizers import small_tokenizer
from tests.runtime.trl_compat.necessity import obsolete
from tests.runtime.trl_compat.test_rollout_decoding import every_trainer, rollout_trainer

from posttrain.runtime.trl_compat.rollout_positions import patch_positions

ROW, COMPLETION, PADDING = [4, 9, 6, 7, 5, 8], 3, 4


def gpt2() -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(small_tokenizer("adds_bos")),
        n_embd=16,
        n_layer=2,
        n_head=2,
        n_positions=32,
        initializer_range=0.5,
    )
    return GPT2LMHeadModel(config).eval()


def logprobs(trainer: Any, padding: int) -> Any:
    tokens = torch.tensor([[0] * padding + ROW])
    attention = torch.tensor([[0] * padding + [1] * len(ROW)])
    with torch.no_grad():
        found = trainer._get_per_token_logps_and_entropies(trainer.model, tokens, attention, COMPLETION)
    return found[0]


@pytest.fixture
def trainer(kind: Any, config: Any, tmp_path: Path) -> Any:
    made = rollout_trainer(kind, config, tmp_path, model=gpt2())
    made.model.eval()
    return made


@every_trainer
def test_trl_counts_padding_in_the_positions(trainer: Any) -> None:
    change = (logprobs(trainer, PADDING) - logprobs(trainer, 0)).abs().max()
    assert change > 0.1, obsolete("rollout_positions")


@every_trainer
def test_padding_changes_no_log_probability(trainer: Any) -> None:
    plain = logprobs(trainer, 0)
    patch_positions(trainer)
    assert torch.equal(logprobs(trainer, 0), plain)
    assert torch.allclose(logprobs(trainer, PADDING), plain, atol=1e-5)


@every_trainer
def test_padding_changes_no_log_probability_with_an_adapter(kind: Any, config: Any, tmp_path: Path) -> None:
    from peft import LoraConfig, get_peft_model

    made = rollout_trainer(
        kind, config, tmp_path, model=get_peft_model(gpt2(), LoraConfig(r=2, fan_in_fan_out=True))
    )
    made.model.eval()
    patch_positions(made)
    assert torch.allclose(logprobs(made, PADDING), logprobs(made, 0), atol=1e-5)
