"""The weights after training do not depend on how a batch is divided into micro-batches and processes, or the
division is in the key."""

import pytest
from tests.runtime.methods.batch_divisions import (
    DEPENDENT,
    DIVISIONS,
    INDEPENDENT,
    ROLLOUTS,
    WHOLE,
    WHOLE_BATCH,
    Case,
    Deviations,
    Division,
    key,
)
from tests.runtime.methods.stage_harness import StageHarness

# As a share of the largest change of a weight. perf/batch_independence.md has the measured values.
_TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def deviations(bench: StageHarness) -> Deviations:
    return Deviations(bench)


@pytest.mark.slow
@pytest.mark.parametrize("division", DIVISIONS, ids=str)
@pytest.mark.parametrize("case", INDEPENDENT.values(), ids=INDEPENDENT)
def test_weights_do_not_depend_on_the_division(
    case: Case, division: Division, deviations: Deviations
) -> None:
    assert deviations.deviation(case, division) < _TOLERANCE


@pytest.mark.parametrize("division", DIVISIONS, ids=str)
@pytest.mark.parametrize("case", INDEPENDENT.values(), ids=INDEPENDENT)
def test_the_division_is_not_in_the_key_without_need(case: Case, division: Division) -> None:
    assert key(case, division) == key(case, WHOLE)


@pytest.mark.slow
@pytest.mark.parametrize("case", DEPENDENT.values(), ids=DEPENDENT)
def test_rules_of_the_key_have_a_reason(case: Case, deviations: Deviations) -> None:
    assert deviations.deviation(case, Division(6, 2)) > _TOLERANCE


@pytest.mark.parametrize("division", DIVISIONS, ids=str)
@pytest.mark.parametrize("case", DEPENDENT.values(), ids=DEPENDENT)
def test_the_division_is_in_the_key_of_what_depends_on_it(case: Case, division: Division) -> None:
    same = case == DEPENDENT["sft, packed"] and division.processes == 1
    assert (key(case, division) == key(case, WHOLE)) is same


@pytest.mark.slow
@pytest.mark.parametrize("case", ROLLOUTS.values(), ids=ROLLOUTS)
def test_micro_batches_of_rollouts(case: Case, deviations: Deviations) -> None:
    assert deviations.deviation(case, Division(8, 1)) < _TOLERANCE
    assert key(case, Division(8, 1)) == key(case, WHOLE)


@pytest.mark.slow
def test_each_process_samples_its_own_completions(deviations: Deviations) -> None:
    assert deviations.deviation(ROLLOUTS["grpo"], Division(12, 2)) > _TOLERANCE


@pytest.mark.parametrize("case", ROLLOUTS.values(), ids=ROLLOUTS)
def test_the_processes_of_rollouts_are_in_the_key(case: Case) -> None:
    keys = {key(case, Division(4, processes)) for processes in (1, 2, 3)}
    assert len(keys) == 3


@pytest.mark.slow
def test_a_loss_over_the_batch_depends_on_the_processes(deviations: Deviations) -> None:
    assert deviations.deviation(WHOLE_BATCH["dpo, aot"], Division(None, 2)) > _TOLERANCE


@pytest.mark.parametrize("case", WHOLE_BATCH.values(), ids=WHOLE_BATCH)
def test_the_processes_of_a_loss_over_the_batch_are_in_the_key(case: Case) -> None:
    assert key(case, Division(None, 2)) != key(case, WHOLE)
