"""Liger and torch.compile: what TRL is told of them, what they need, and that compiling changes little.

Liger runs on GPUs alone: here it is held to the table of TRL's arguments, and no further.
"""

from pathlib import Path

import pytest
from tests.runtime.methods.workbench import Bench, compiled, metrics, recipe

from posttrain.compiler.checks.owned import owned
from posttrain.compiler.checks.trl import arguments_of
from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.faults import StepFault
from posttrain.runtime.methods.sft import Sft
from posttrain.runtime.training import kernels
from posttrain.runtime.training.kernels import kernel_arguments, over
from posttrain.spec.extension import Method

KINDS = sorted(
    {
        method.trl
        for name in CATALOG.names("method")
        if isinstance(method := CATALOG.find("method", name), Method) and method.trl is not None
    }
)


@pytest.fixture
def all_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "find_spec", lambda _: "there")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "elsewhere")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("all_there")
def test_trl_has_the_arguments_that_are_given(kind: str, tmp_path: Path) -> None:
    told = kernel_arguments(Sft(liger=True, compile=True), 1, tmp_path)
    assert told == {
        "use_liger_kernel": True,
        "liger_kernel_config": {"fused_linear_cross_entropy": False},
        "torch_compile": True,
    }
    assert told.keys() <= arguments_of(kind).keys()
    assert {"use_liger_kernel", "torch_compile"} <= owned(kind)


def test_what_the_recipe_says_of_one_kernel_leaves_the_others_as_they_are() -> None:
    """The one that takes the logits away stays off, whatever else is chosen."""
    ours = {"use_liger_kernel": True, "liger_kernel_config": {"fused_linear_cross_entropy": False}}
    given = {"liger_kernel_config": {"rope": False}, "accelerator_config": {"even_batches": False}}
    assert over(ours, given) == {
        "use_liger_kernel": True,
        "liger_kernel_config": {"fused_linear_cross_entropy": False, "rope": False},
        "accelerator_config": {"even_batches": False},
    }
    assert over(ours, {"liger_kernel_config": None}) == {
        "use_liger_kernel": True,
        "liger_kernel_config": None,
    }


def test_nothing_is_told_where_nothing_is_asked_for(tmp_path: Path) -> None:
    assert kernel_arguments(Sft(), 1, tmp_path) == {}


@pytest.mark.parametrize(
    ("params", "gpus", "message", "advice"),
    [
        (Sft(liger=True), 0, "Liger computes on GPUs", "take `liger: true` out"),
        (Sft(liger=True), 1, "Liger, which is not installed", "extra `cuda`"),
        (Sft(compile=True), 1, "Triton, which is not installed", "extra `cuda`"),
        (Sft(compile=True), 0, "a C++ compiler", "install g++"),
    ],
)
def test_what_is_missing_is_said_with_advice(
    params: Sft, gpus: int, message: str, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "find_spec", lambda _: None)
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(StepFault) as told:
        kernel_arguments(params, gpus, tmp_path)
    assert message in str(told.value)
    assert advice in told.value.advice


_PLAIN = "params: {steps: 4, batch: 8, checkpoint_every: 2}"
# All that torch.compile does but to write C++, which takes minutes where the machine is busy.
_COMPILED = _PLAIN.replace("}", ", compile: true}") + ", trl: {torch_compile_backend: aot_eager}"


@pytest.mark.slow
def test_a_compiled_model_learns_the_same_and_resumes_exactly(bench: Bench) -> None:
    stage = "it: {train: sft, model: base, data: sums.train, %s}"
    plain = bench.run(recipe(stage % _PLAIN))["it"]
    plan = compiled(recipe(stage % _COMPILED))
    step = plan.step("it")
    product = bench.made(plan, step)
    assert metrics(product, "loss") == pytest.approx(metrics(plain, "loss"), rel=1e-3)
    bench.forget(step)
    bench.lay_out(plan, step)
    bench.killed(step, at=2)
    bench.lay_out(plan, step)
    assert bench.wait(step) == 0, bench.failure(step)
    assert bench.commit(step).content == product.content
