"""The model card of an export lists the stages that produced it, and nothing about the machine."""

import pytest
from tests.runtime.methods.stage_harness import StageHarness, recipe

from posttrain.runtime.verbs.model_card import Origin, render_card
from posttrain.spec.plan import SourceLocation, Step
from posttrain.spec.step_params.artifact_params import ModelStepParams

pytestmark = pytest.mark.slow


def test_a_card_tells_how_the_model_was_made(bench: StageHarness) -> None:
    params = "params: {max_steps: 3, batch_size: 8, learning_rate: 1.0e-3, max_length: 64}"
    made = bench.run(
        recipe(
            f"better: {{train: dpo, model: sft, data: sums.train, adapter: {{r: 4}}, {params}}}",
            "whole: {export: better}",
        )
    )
    text = (made["whole"].files / "README.md").read_text()
    assert text.startswith("---\nlibrary_name: transformers\n")
    assert 'tags: ["posttrain", "sft", "dpo"]' in text
    order = [text.index(f"## {name}") for name in ("models.base", "sft: sft", "better: dpo")]
    assert order == sorted(order)
    assert "random weights" in text
    assert "| steps | 3 |" in text
    assert "`datasets.sums, part train`" in text
    assert str(bench.root) not in text


def test_a_published_base_is_named_for_the_hub() -> None:
    params = ModelStepParams(
        init=None,
        from_="ORG/NAME",
        revision="1" * 40,
        tokenizer=None,
        chat_template=None,
        tags=None,
        dtype="auto",
        quantize="none",
        seed=1,
    )
    step = Step(
        id="models.base",
        kind="model",
        entry="",
        params=params.dump(),
        place=SourceLocation(file="recipe.yaml", line=1, column=1),
        key="",
        key_parts={},
        key_values={},
    )
    text = render_card([Origin(step=step, params=params, facts={})])
    assert "base_model: ORG/NAME" in text
    assert f"Initialized from `ORG/NAME` at revision {'1' * 40}." in text
