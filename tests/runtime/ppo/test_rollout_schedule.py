"""The prompts of each rollout and the completions of each micro-batch, which depend only on the seed."""

from collections import Counter

import pytest

from posttrain.runtime.ppo.rollout_schedule import RolloutSchedule, derive_seed


def schedule(**changed: int) -> RolloutSchedule:
    given = {
        "seed": 1,
        "num_prompts": 10,
        "micro_batch_size": 2,
        "accumulation_steps": 2,
        "num_mini_batches": 3,
        "num_ppo_epochs": 2,
    }
    return RolloutSchedule(**{**given, **changed})


def test_every_iteration_learns_once_from_every_completion() -> None:
    one = schedule()
    for generation in range(2):
        for iteration in range(2):
            numbers = range((generation * 2 + iteration) * 6, (generation * 2 + iteration + 1) * 6)
            found = [one.micro_batch_at(number) for number in numbers]
            assert {turn.generation for turn in found} == {generation}
            assert sorted(place for turn in found for place in turn.indices) == list(range(one.rollout_size))


def test_micro_batches_make_up_a_step() -> None:
    one = schedule()
    for number in range(0, 24, 2):
        first, second = one.micro_batch_at(number), one.micro_batch_at(number + 1)
        assert first.step == second.step
        assert first.step_indices == second.step_indices == first.indices + second.indices


def test_a_micro_batch_of_another_size_learns_in_the_same_steps() -> None:
    whole, parts = (
        schedule(micro_batch_size=4, accumulation_steps=1),
        schedule(micro_batch_size=1, accumulation_steps=4),
    )
    assert [whole.micro_batch_at(n).indices for n in range(12)] == [
        parts.micro_batch_at(n * 4).step_indices for n in range(12)
    ]


def test_iterations_have_orders_of_their_own() -> None:
    one = schedule()
    assert [one.micro_batch_at(n).indices for n in range(6)] != [
        one.micro_batch_at(n).indices for n in range(6, 12)
    ]


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_every_prompt_is_answered_once_an_epoch(processes: int) -> None:
    parts = [schedule(rank=rank, processes=processes, num_prompts=72) for rank in range(processes)]
    epochs = 72 // processes // parts[0].rollout_size
    answered = Counter(row for part in parts for epoch in range(epochs) for row in part.prompt_rows(epoch))
    assert answered == Counter(range(72))


def test_epochs_have_orders_of_their_own_and_seeds_too() -> None:
    orders = [
        tuple(schedule(num_prompts=12, seed=seed).prompt_rows(epoch)) for seed in (1, 2) for epoch in range(3)
    ]
    assert len(set(orders)) == len(orders)


def test_what_is_drawn_depends_on_every_name() -> None:
    assert (
        len({derive_seed(1, "a", 1), derive_seed(1, "a", 2), derive_seed(1, "b", 1), derive_seed(2, "a", 1)})
        == 4
    )
    assert derive_seed(1, "a", 1) == derive_seed(1, "a", 1)
