"""GRPO and RLOO generate from prompts, not from texts that have already ended."""

from types import SimpleNamespace
from typing import Any

import pytest
from tests.runtime.small_tokenizers import KINDS, TEMPLATES, small_tokenizer
from tests.runtime.trl_compat.necessity import obsolete
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.rloo_trainer import RLOOTrainer

from posttrain.runtime.prompt_tokenization import tokenize_prompt, tokenize_prompts
from posttrain.runtime.trl_compat.rollout_prompts import patch_prompt_tokenization

TRAINERS = [GRPOTrainer, RLOOTrainer]
TEXTS = ["1+2=", "30+4="]
TURNS = [[{"role": "system", "content": "add"}, {"role": "user", "content": text}] for text in TEXTS]


def bare_trainer(kind: Any, tokenizer: Any) -> Any:
    """A trainer that can only tokenize."""
    trainer = kind.__new__(kind)
    trainer.__dict__ |= {
        "processing_class": tokenizer,
        "environment_factories": None,
        "tools": None,
        "chat_template": None,
        "_is_vlm": False,
        "chat_template_kwargs": {},
        "accelerator": SimpleNamespace(),
    }
    return trainer


@pytest.mark.parametrize("kind", TRAINERS)
def test_trl_ends_a_prompt_if_the_tokenizer_ends_texts(kind: Any) -> None:
    tokenizer = small_tokenizer("adds_bos_and_eos")
    ids, *_ = bare_trainer(kind, tokenizer)._tokenize_prompts(TEXTS)
    assert ids[0][-1] == tokenizer.eos_token_id, obsolete("rollout_prompts")


@pytest.mark.parametrize("kind", TRAINERS)
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("template", TEMPLATES)
def test_rollouts_start_from_the_prompts_of_other_stages(kind: Any, name: str, template: str) -> None:
    tokenizer = small_tokenizer(name, template)
    trainer = bare_trainer(kind, tokenizer)
    patch_prompt_tokenization(trainer)
    prompts: list[Any] = list(TEXTS) if template == "none" else TURNS
    ids, images, fields = trainer._tokenize_prompts(prompts)
    assert [list(one) for one in ids] == tokenize_prompts(prompts, tokenizer)
    assert list(ids[1]) == tokenize_prompt(prompts[1], tokenizer)
    assert (images, fields) == (None, {})
