"""Tests adapters on lm_head against the behavior of the TRL trainers."""

from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.compiler.checks.stage_compilation import codes_of, stage_recipe

_OWN = (
    "    init: {model_type: qwen2, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4}\n   "
    " tokenizer: {init: characters}\n"
)
_OTHER = "    from: someone/a-model\n    revision: 7ae557604adf67be50417f59c2c2f167def9a775\n"


def codes_for_published(method: str, targets: str) -> list[str]:
    return codes_of(stage_recipe(method, f"adapter: {{target_modules: [{targets}]}}").replace(_OWN, _OTHER))


@pytest.mark.parametrize("method", ["sft", "dpo", "ipo"])
def test_it_is_refused_where_trl_refuses_it(method: str) -> None:
    assert codes_for_published(method, "q_proj, lm_head") == ["PT0647"]
    assert codes_for_published(method, "q_proj") == []


@pytest.mark.parametrize("method", ["orpo", "cpo", "reward_model"])
def test_it_is_taken_where_trl_takes_it(method: str) -> None:
    assert codes_for_published(method, "q_proj, lm_head") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "refuses"),
    [
        ("trl.trainer.sft_trainer", True),
        ("trl.trainer.dpo_trainer", True),
        ("trl.trainer.kto_trainer", True),
        ("trl.trainer.grpo_trainer", True),
        ("trl.trainer.rloo_trainer", True),
        ("trl.trainer.reward_trainer", False),
    ],
)
def test_the_pinned_trl_is_as_the_check_has_it(module: str, refuses: bool) -> None:
    found = find_spec(module)
    assert found is not None
    assert found.origin is not None
    text = Path(found.origin).read_text()
    assert ("Applying a PEFT adapter to `lm_head` is not supported" in text) == refuses
