"""The rollouts of GRPO and RLOO are sampled as the recipe says, not as the model's generation config does."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.runtime.small_tokenizers import small_tokenizer
from tests.runtime.test_prompt_tokenization import tiny_model
from tests.runtime.trl_compat.necessity import obsolete
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.rloo_config import RLOOConfig
from trl.trainer.rloo_trainer import RLOOTrainer

from posttrain.runtime.trl_compat.rollout_decoding import patch_decoding

KINDS = [(GRPOTrainer, GRPOConfig), (RLOOTrainer, RLOOConfig)]
FIELDS = {"min_p": 1.0, "suppress_tokens": list(range(3, 40)), "min_new_tokens": 8, "no_repeat_ngram_size": 1}
every_trainer = pytest.mark.parametrize(("kind", "config"), KINDS)


def rollout_trainer(kind: Any, config: Any, folder: Path, model: Any = None) -> Any:
    from datasets import Dataset

    args = config(
        output_dir=str(folder),
        report_to=[],
        use_cpu=True,
        bf16=False,
        beta=0.0,
        per_device_train_batch_size=4,
        num_generations=2,
        max_completion_length=8,
        temperature=1.0,
        top_k=0,
    )
    tokenizer = small_tokenizer("adds_bos")
    return kind(
        model=tiny_model(tokenizer) if model is None else model,
        args=args,
        train_dataset=Dataset.from_list([{"prompt": "1+2="}] * 8),
        processing_class=tokenizer,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
    )


def rollouts(trainer: Any) -> list[list[int]]:
    torch.manual_seed(3)
    more = (2,) if isinstance(trainer, GRPOTrainer) else ()
    made = trainer._generate_single_turn([[1, 4, 5]] * 4, None, {}, *more)
    return made[0] if isinstance(made, tuple) else made


@every_trainer
def test_trl_fills_its_config_from_the_models(kind: Any, config: Any, tmp_path: Path) -> None:
    trainer = rollout_trainer(kind, config, tmp_path)
    plain = rollouts(trainer)
    trainer.model.generation_config.suppress_tokens = FIELDS["suppress_tokens"]
    assert rollouts(trainer) != plain, obsolete("rollout_decoding")


@every_trainer
@pytest.mark.parametrize("field", FIELDS)
def test_the_models_config_changes_no_rollout(kind: Any, config: Any, field: str, tmp_path: Path) -> None:
    trainer = rollout_trainer(kind, config, tmp_path)
    patch_decoding(trainer)
    plain = rollouts(trainer)
    setattr(trainer.model.generation_config, field, FIELDS[field])
    assert rollouts(trainer) == plain
    assert getattr(trainer.model.generation_config, field) == FIELDS[field]
