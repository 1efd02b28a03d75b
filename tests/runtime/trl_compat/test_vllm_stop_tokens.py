"""vLLM ends completions at the trainer's end tokens."""

import inspect

from tests.runtime.trl_compat.fake_engine import FakeEngine, fake_trainer
from tests.runtime.trl_compat.necessity import obsolete
from trl.generation import vllm_generation


def test_trl_passes_vllm_no_end_tokens() -> None:
    source = inspect.getsource(vllm_generation)
    assert "stop_token_ids" not in source, obsolete("vllm_stop_tokens")
    assert "eos_token" not in source, obsolete("vllm_stop_tokens")


def test_texts_end_where_the_trainer_says_unless_the_recipe_says_otherwise() -> None:
    assert fake_trainer(FakeEngine()).vllm_generation.generation_kwargs == {"stop_token_ids": [1, 7]}
    given = fake_trainer(FakeEngine(stop_token_ids=[2], top_p=0.5)).vllm_generation.generation_kwargs
    assert given == {"stop_token_ids": [2], "top_p": 0.5}
