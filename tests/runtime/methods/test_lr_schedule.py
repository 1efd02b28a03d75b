"""The learning rate over a run: shape, warm-up and minimum, including a resumed run."""

from itertools import pairwise

import pytest
from tests.runtime.methods.stage_harness import StageHarness, compile_or_errors, compile_plan, metrics, recipe

from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.methods.sft import SftParams
from posttrain.runtime.training.lr_schedule import lr_scheduler_arguments
from posttrain.spec.extension import Method

_ROWS = "max_steps: 12, learning_rate: 1.0e-3, batch_size: 16, max_length: 64, save_steps: 3"
STEPS, HIGHEST = 20, 0.5


def sft(params: str) -> str:
    return f"it: {{train: sft, model: base, data: sums.train, params: {{{_ROWS}, {params}}}}}"


def rates(**params: object) -> list[float]:
    """Return the rate of each step from the trainer's scheduler."""
    import torch
    from transformers import get_scheduler

    given = lr_scheduler_arguments(SftParams(**params), STEPS, HIGHEST)
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=HIGHEST)
    scheduler = get_scheduler(
        given["lr_scheduler_type"],
        optimizer,
        num_warmup_steps=given["warmup_steps"],
        num_training_steps=STEPS,
        scheduler_specific_kwargs=given["lr_scheduler_kwargs"],
    )
    found: list[float] = []
    for _ in range(STEPS + 1):
        found.append(optimizer.param_groups[0]["lr"] / HIGHEST)
        optimizer.step()
        scheduler.step()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["linear", "cosine", "warmup_stable_decay"])
@pytest.mark.parametrize("minimum", [0.0, 0.25])
def test_a_schedule_ends_at_its_minimum(kind: str, minimum: float) -> None:
    found = rates(lr_scheduler_type=kind, min_lr_ratio=minimum, warmup_steps=4)
    first = minimum if kind == "warmup_stable_decay" else 0.0
    assert found[:5] == pytest.approx([first + (1 - first) * step / 4 for step in range(5)])
    assert found[-1] == pytest.approx(minimum)
    assert all(before >= after for before, after in pairwise(found[4:]))


@pytest.mark.slow
def test_warmup_stable_decay_stays_at_the_highest_until_its_last_steps() -> None:
    found = rates(lr_scheduler_type="warmup_stable_decay", warmup_steps=0.1, decay_ratio=0.25)
    assert found[2:16] == pytest.approx([1] * 14)
    assert found[16] < 1
    assert rates(lr_scheduler_type="warmup_stable_decay")[:19] == pytest.approx([1] * 19)


@pytest.mark.slow
def test_the_others_go_as_their_names_say() -> None:
    assert rates(lr_scheduler_type="constant_with_warmup", warmup_steps=2) == pytest.approx(
        [0, 0.5] + [1] * 19
    )
    assert rates(lr_scheduler_type="inverse_sqrt", warmup_steps=4)[16] == pytest.approx(0.5)
    assert rates(lr_scheduler_type="linear", min_lr_ratio=0.2)[10] == pytest.approx(0.6)
    assert rates(lr_scheduler_type="constant") == pytest.approx([1] * 21)
    by_share = rates(lr_scheduler_type="linear", warmup_steps=0.2)
    assert by_share == rates(lr_scheduler_type="linear", warmup_steps=4)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ("warmup_steps: 1.5", "write an integer for a number of steps, or a decimal below 1"),
        ("lr_scheduler_type: constant, warmup_steps: 2", "use constant_with_warmup"),
        (
            "lr_scheduler_type: constant_with_warmup, min_lr_ratio: 0.1",
            "min_lr_ratio has no effect with `lr_scheduler_type: constant_with_warmup`",
        ),
        (
            "lr_scheduler_type: inverse_sqrt, min_lr_ratio: 0.1",
            "min_lr_ratio has no effect with `lr_scheduler_type: inverse_sqrt`",
        ),
        (
            "lr_scheduler_type: cosine, decay_ratio: 0.1",
            "decay_ratio has no effect with `lr_scheduler_type: cosine`",
        ),
        (
            "lr_scheduler_type: warmup_stable_decay, warmup_steps: 0.6, decay_ratio: 0.5",
            "together exceed 1",
        ),
        ("warmup_steps: 12", "warmup_steps is 12, but the run has 12 steps"),
        ("min_lr_ratio: 1.0", "must be below 1"),
    ],
)
def test_what_has_no_effect_is_refused(params: str, said: str) -> None:
    plan, errors = compile_or_errors(recipe(sft(params)))
    assert plan is None
    assert said in " ".join(errors)


@pytest.mark.parametrize("name", ["dpo", "cpo", "grpo", "rloo", "ppo"])
def test_methods_with_checks_of_their_own_check_this_too(name: str) -> None:
    stage = (
        f"it: {{train: {name}, model: base, data: sums.train, params: {{max_steps: 4, decay_ratio: 0.1}}}}"
    )
    _, errors = compile_or_errors(recipe(stage))
    assert any("decay_ratio has no effect with `lr_scheduler_type: linear`" in error for error in errors)


@pytest.mark.parametrize("name", CATALOG.names("method"))
def test_left_out_they_are_not_in_the_key(name: str) -> None:
    method = CATALOG.find("method", name)
    assert isinstance(method, Method)
    needed = {"max_steps": 9} if method.needs_reward else {}
    names = {"warmup_steps", "min_lr_ratio", "decay_ratio"}
    assert names < set(method.neutral(method.params(**needed)))
    given = method.params(
        lr_scheduler_type="warmup_stable_decay",
        warmup_steps=2,
        min_lr_ratio=0.1,
        decay_ratio=0.2,
        **needed,
    )
    assert not names & set(method.neutral(given))


@pytest.mark.slow
def test_a_killed_run_goes_on_at_its_rate(bench: StageHarness) -> None:
    text = recipe(
        sft("lr_scheduler_type: warmup_stable_decay, warmup_steps: 2, min_lr_ratio: 0.1, decay_ratio: 0.5")
    )
    plan = compile_plan(text)
    step = plan.step("it")
    left_alone = bench.run(text)["it"]
    found = metrics(left_alone, "learning_rate")
    assert found[2:6] == pytest.approx([1e-3] * 4)
    assert found[-1] < 3e-4
    names = sorted(path.name for path in left_alone.files.iterdir())
    expected = [(left_alone.files / name).read_bytes() for name in names]
    bench.reset_step(step)
    bench.prepare_step(plan, step)
    bench.kill_after_checkpoint(step, 6)
    assert bench.wait(step) == 0, bench.failure(step)
    product = bench.commit(step)
    assert metrics(product, "learning_rate")[-6:] == found[-6:]
    assert [(product.files / name).read_bytes() for name in names] == expected
