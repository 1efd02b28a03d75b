"""The planned number of optimizer steps, which the trainer must match."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as some

from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.methods.grpo import GrpoParams
from posttrain.runtime.methods.kto import KtoParams
from posttrain.runtime.methods.sft import SftParams
from posttrain.runtime.training.rollout_training import rollout_schedule
from posttrain.runtime.training.row_preparation import as_messages, label_pairs
from posttrain.runtime.training.step_arithmetic import (
    checkpoint_interval,
    resolve_learning_rate,
    row_schedule,
)
from posttrain.runtime.training.training_params import TrainingParams
from posttrain.spec.declaration_fields import fields_of
from posttrain.spec.extension import Method, Schedule

METHODS = [
    method for name in CATALOG.names("method") if isinstance(method := CATALOG.find("method", name), Method)
]


@given(
    rows=some.integers(1, 5000),
    batch=some.integers(1, 200),
    epochs=some.sampled_from([0.25, 0.5, 1.0, 2.0, 3.5]),
)
def test_epochs_become_steps(rows: int, batch: int, epochs: float) -> None:
    steps = row_schedule(SftParams(batch_size=batch, epochs=epochs), rows).steps
    an_epoch = math.ceil(rows / batch)
    assert steps >= 1
    assert epochs * an_epoch <= steps < epochs * an_epoch + 1 or steps == 1


@given(
    every=some.none() | some.integers(1, 50),
    steps=some.integers(1, 200),
    buffer=some.integers(1, 5),
    iterations=some.integers(1, 5),
)
def test_checkpoints_land_on_boundaries(every: int | None, steps: int, buffer: int, iterations: int) -> None:
    params = GrpoParams(
        max_steps=steps, optimizer_steps_per_generation=buffer, num_iterations=iterations, save_steps=every
    )
    planned = rollout_schedule(params, 10_000)
    interval = checkpoint_interval(params, planned)
    assert planned.checkpoint_alignment == buffer * iterations
    assert interval % planned.checkpoint_alignment == 0
    assert interval >= (every or 1)


def test_a_boundary_of_one_moves_nothing() -> None:
    assert checkpoint_interval(SftParams(save_steps=7), Schedule(steps=100)) == 7
    assert checkpoint_interval(SftParams(), Schedule(steps=100)) == 25


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_the_usual_rate_is_the_one_that_is_documented(method: Method) -> None:
    params = method.params
    assert issubclass(params, TrainingParams)
    description = fields_of(TrainingParams)["learning_rate"].description
    rate = f"{params.default_learning_rate:g}".replace("e-0", "e-")
    assert f"{method.name} {rate}" in description or (rate == "1e-6" and f"{method.name} " not in description)


def test_a_rate_that_is_written_is_taken() -> None:
    assert resolve_learning_rate(SftParams(learning_rate=3e-4), adapter=True) == 3e-4
    assert resolve_learning_rate(SftParams(), adapter=True) == pytest.approx(2e-4)
    assert resolve_learning_rate(SftParams(), adapter=False) == 2e-5


def test_kto_needs_rows_to_compare() -> None:
    schedule = next(method for method in METHODS if method.name == "kto").schedule
    with pytest.raises(ValueError, match="set micro_batch_size to 2 or more"):
        schedule(KtoParams(micro_batch_size=1), 100)
    assert schedule(KtoParams(micro_batch_size=1, loss_type="apo_zero_unpaired"), 100).steps == 4


def test_a_pair_becomes_two_labelled_rows_side_by_side() -> None:
    pairs = [{"prompt": str(n), "chosen": f"good {n}", "rejected": f"bad {n}"} for n in range(20)]
    rows = label_pairs(pairs)
    assert [row["label"] for row in rows] == [True, False] * 20
    assert [row["prompt"] for row in rows[::2]] == [row["prompt"] for row in rows[1::2]]
    assert [row["completion"] for row in rows[:2]] == ["good 0", "bad 0"]


def test_text_becomes_turns_and_turns_stay() -> None:
    turns = [{"role": "system", "content": "short"}, {"role": "user", "content": "1+1="}]
    row = as_messages({"prompt": turns, "chosen": "2", "rejected": "3", "answer": "2"})
    assert row["prompt"] == turns
    assert row["chosen"] == [{"role": "assistant", "content": "2"}]
    assert row["answer"] == "2"
