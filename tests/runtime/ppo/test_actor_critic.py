"""Policy and value model as one module: outputs, shared weights, and trained weights."""

import pytest
import torch
from tests.runtime.ppo.tiny_models import random_tokens, tiny_model, with_adapter

from posttrain.runtime.ppo import logprobs as chunks
from posttrain.runtime.ppo.actor_critic import build_actor_critic, frozen_copy
from posttrain.runtime.ppo.logprobs import token_logprobs

FAMILIES = ("qwen2", "llama", "gemma2", "granite", "cohere", "gpt2", "gpt_neox", "bloom")


def model_inputs(rows: int = 3, prompt: int = 4, count: int = 5) -> tuple[torch.Tensor, torch.Tensor, int]:
    given = random_tokens(rows, prompt + count)
    return given, torch.ones_like(given), count


@pytest.mark.parametrize("family", FAMILIES)
def test_log_probabilities_and_entropies_are_the_model_s_own(family: str) -> None:
    """Including the logit scaling of the architecture."""
    policy = tiny_model(family)
    given, attention, count = model_inputs()
    with torch.no_grad():
        found, values, entropies = build_actor_critic(policy, "separate", 0.7, False)(given, attention, count)
        logits = policy(input_ids=given).logits[:, -count - 1 : -1] / 0.7
    every = logits.log_softmax(dim=-1)
    expected = every.gather(-1, given[:, -count:].unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-5)
    torch.testing.assert_close(entropies, -(every.exp() * every).sum(dim=-1), atol=2e-5, rtol=1e-5)
    assert values.abs().max() == 0  # initial values are not random


@pytest.mark.parametrize("family", FAMILIES)
def test_padding_on_either_side_changes_nothing(family: str) -> None:
    actor_critic = build_actor_critic(tiny_model(family), "separate", 1.0, False)
    given, attention, count = model_inputs()
    padded = torch.nn.functional.pad(given, (3, 2))
    marks = torch.nn.functional.pad(attention, (3, 2))
    with torch.no_grad():
        expected = actor_critic(given, attention, count)[0]
        found = actor_critic(padded, marks, count + 2)[0][:, :count]
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("entropy", [False, True])
def test_pieces_are_as_the_whole_with_their_gradients(entropy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model, given = tiny_model(tie_word_embeddings=False), random_tokens(3, 5)
    grads = []
    for chunk in (1 << 25, 4 * model.config.vocab_size):
        monkeypatch.setattr(chunks, "_CHUNK_ELEMENTS", chunk)
        hidden = torch.randn(3, 5, 16, generator=torch.Generator().manual_seed(2)).requires_grad_()
        model.zero_grad()
        logprobs, entropies = token_logprobs(hidden, given, model, 0.9, entropy)
        (logprobs.sum() + (entropies.sum() if entropy else 0)).backward()
        grads.append((logprobs.detach(), hidden.grad, model.lm_head.weight.grad.clone()))
        assert entropies.requires_grad is entropy
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_values_have_layers_of_their_own() -> None:
    actor_critic = build_actor_critic(tiny_model(), "separate", 1.0, False)
    policy, values = actor_critic.trainable_parameters()
    assert not {id(w) for w in policy} & {id(w) for w in values}
    assert sum(w.numel() for w in values) > sum(w.numel() for w in policy) / 2
    _, predicted, _ = actor_critic(*model_inputs())
    (predicted - 1).square().sum().backward()
    assert all(weight.grad is None for weight in policy)
    assert actor_critic.head.bias.grad is not None


def test_a_shared_head_moves_the_policy_s_layers() -> None:
    actor_critic = build_actor_critic(tiny_model(), "shared", 1.0, False)
    torch.nn.init.ones_(actor_critic.head.weight)
    policy, values = actor_critic.trainable_parameters()
    assert sum(weight.numel() for weight in values) == 17
    actor_critic(*model_inputs())[1].sum().backward()
    assert any(weight.grad is not None and weight.grad.abs().max() > 0 for weight in policy)


def test_under_an_adapter_the_weights_below_are_there_once() -> None:
    policy = with_adapter(tiny_model())
    actor_critic, reference = build_actor_critic(policy, "separate", 1.0, False), frozen_copy(policy)
    below = {id(w) for name, w in policy.named_parameters() if "lora_" not in name}
    trained = {id(w) for name, w in policy.named_parameters() if "lora_" in name}
    of_values = {id(w) for w in actor_critic.layers.parameters()}
    of_reference = {id(w) for w in reference.parameters()}
    assert below & of_values
    assert below == below & of_reference
    assert not trained & (of_values | of_reference)
    assert not any(weight.requires_grad for weight in reference.parameters())
    assert {name.rpartition(".lora_")[1] for name in actor_critic.value_state_dict()} == {".lora_", ""}


@pytest.mark.parametrize("adapter", [False, True])
def test_the_reference_starts_where_the_policy_does_and_stays(adapter: bool) -> None:
    policy = with_adapter(tiny_model()) if adapter else tiny_model()
    reference = frozen_copy(policy)
    given = random_tokens(2, 6)
    with torch.no_grad():
        before = policy(input_ids=given).logits
        assert torch.equal(reference(input_ids=given).logits, before)
        for weight in policy.parameters():
            if weight.requires_grad:
                weight.add_(0.1)
        assert not torch.equal(policy(input_ids=given).logits, before)
        assert torch.equal(reference(input_ids=given).logits, before)


def test_the_policy_answers_for_what_a_trainer_asks() -> None:
    policy = with_adapter(tiny_model())
    actor_critic = build_actor_critic(policy, "separate", 1.0, False)
    assert actor_critic.config is policy.config
    assert actor_critic.generation_config is policy.generation_config
    assert actor_critic.is_quantized is False
    with pytest.raises(AttributeError):
        _ = actor_critic.no_such_thing


@pytest.mark.parametrize("family", ["qwen2", "gpt2"])
def test_gradient_checkpointing_changes_no_gradient(family: str) -> None:
    found = []
    for again in (False, True):
        actor_critic = build_actor_critic(tiny_model(family), "separate", 1.0, False).train()
        torch.nn.init.ones_(actor_critic.head.weight)
        for module in actor_critic.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        if again:
            actor_critic.gradient_checkpointing_enable()
        logprobs, values, _ = actor_critic(*model_inputs())
        (logprobs.sum() + values.sum()).backward()
        found.append(
            [w.grad for part in actor_critic.trainable_parameters() for w in part if w.grad is not None]
        )
    assert len(found[0]) == len(found[1]) > 10
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def test_under_autocast_what_is_told_is_in_full_precision() -> None:
    actor_critic = build_actor_critic(tiny_model(), "separate", 1.0, False)
    torch.nn.init.ones_(actor_critic.head.weight)
    with torch.no_grad():
        expected = actor_critic(*model_inputs())
        with torch.autocast("cpu", torch.bfloat16):
            found = actor_critic(*model_inputs())
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one, other, atol=0.15, rtol=0.1)
