"""Completions: end tokens, masks, and sampling that depends only on the seed."""

import pytest
import torch
from tests.runtime.ppo.tiny_models import tiny_model

from posttrain.runtime.models.character_tokenizer import build_character_tokenizer
from posttrain.runtime.ppo.rollout_generation import eos_token_ids, generate_completions, mask_completions

DEVICE = torch.device("cpu")


def test_a_completion_ends_with_its_first_end_token() -> None:
    tokens = torch.tensor([[0, 5, 6, 7, 1, 0], [5, 5, 6, 7, 8, 9], [5, 5, 2, 1, 1, 1]])
    attention = torch.tensor([[0, 1], [1, 1], [1, 1]])
    found = mask_completions(tokens, attention, [1, 2])
    assert found.mask.tolist() == [[1, 1, 1, 0], [1, 1, 1, 1], [1, 0, 0, 0]]
    assert found.attention.tolist() == [[0, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]]
    assert found.ended.tolist() == [True, False, True]
    assert found.completion_length == 4


def test_an_end_that_also_pads_is_counted_once() -> None:
    found = mask_completions(torch.tensor([[5, 6, 1, 1, 1]]), torch.tensor([[1]]), [1])
    assert found.mask.tolist() == [[1, 1, 0, 0]]


@pytest.fixture(scope="module")
def writer() -> tuple[object, object]:
    return tiny_model(), build_character_tokenizer("0123456789+=", [])


def test_what_is_drawn_depends_on_the_seed_alone(writer) -> None:
    policy, tokenizer = writer
    sampling = {"temperature": 1.0, "top_p": 1.0, "max_new_tokens": 8}
    before = torch.get_rng_state()
    first = generate_completions(policy, tokenizer, ["1+2=", "10+20="], sampling, 7, DEVICE)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(99)
    again = generate_completions(policy, tokenizer, ["1+2=", "10+20="], sampling, 7, DEVICE)
    other = generate_completions(policy, tokenizer, ["1+2=", "10+20="], sampling, 8, DEVICE)
    assert torch.equal(first.tokens, again.tokens)
    assert not torch.equal(first.tokens[:, :12], other.tokens[:, :12])
    # the shorter prompt is padded on its left
    assert first.attention[:, :6].tolist() == [[0, 0, 1, 1, 1, 1], [1] * 6]


def test_a_model_s_own_sampling_habits_are_left_aside(writer) -> None:
    """A repetition penalty from the model's files would distort the sampled distribution."""
    policy, tokenizer = writer
    sampling = {"temperature": 1.0, "top_p": 1.0, "max_new_tokens": 8}
    expected = generate_completions(policy, tokenizer, ["1+2="] * 4, sampling, 3, DEVICE).tokens
    habits = policy.generation_config
    habits.repetition_penalty, habits.top_k, habits.temperature = 5.0, 1, 0.1
    try:
        assert torch.equal(
            generate_completions(policy, tokenizer, ["1+2="] * 4, sampling, 3, DEVICE).tokens, expected
        )
    finally:
        habits.repetition_penalty = habits.top_k = habits.temperature = None


def test_texts_leave_out_what_is_padding(writer) -> None:
    policy, tokenizer = writer
    sampling = {"temperature": 1.0, "top_p": 1.0, "max_new_tokens": 12}
    found = generate_completions(policy, tokenizer, ["1+2="] * 8, sampling, 5, DEVICE)
    for text, row, mask in zip(found.texts(tokenizer), found.completions, found.mask, strict=True):
        kept = row[mask.bool()].tolist()
        assert text == tokenizer.decode(kept, skip_special_tokens=True)


def test_all_ends_of_a_model_are_known(writer) -> None:
    policy, tokenizer = writer
    assert eos_token_ids(policy, tokenizer) == [1]
    policy.generation_config.eos_token_id = [1, 4]
    assert eos_token_ids(policy, tokenizer) == [1, 4]
    policy.generation_config.eos_token_id = 1
