"""Liger and torch.compile: trainer arguments, requirements, and the small effect of compilation.

Liger runs only on GPUs: here only its trainer arguments are checked.
"""

from pathlib import Path

import pytest
from tests.runtime.methods.stage_harness import StageHarness, compile_plan, metrics, recipe

from posttrain.compiler.checks.reserved_trl_args import reserved_args
from posttrain.compiler.checks.trl_args import config_arguments
from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.errors import StepError
from posttrain.runtime.methods.sft import SftParams
from posttrain.runtime.training import kernels
from posttrain.runtime.training.kernels import kernel_arguments, merge_trl_arguments
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
    arguments = kernel_arguments(SftParams(use_liger_kernel=True, torch_compile=True), 1, tmp_path)
    assert arguments == {
        "use_liger_kernel": True,
        "liger_kernel_config": {"fused_linear_cross_entropy": False},
        "torch_compile": True,
    }
    assert arguments.keys() <= config_arguments(kind).keys()
    assert {"use_liger_kernel", "torch_compile"} <= reserved_args(kind)


def test_what_the_recipe_says_of_one_kernel_leaves_the_others_as_they_are() -> None:
    """The fused loss, which removes the logits, stays off unless the recipe turns it on."""
    ours = {"use_liger_kernel": True, "liger_kernel_config": {"fused_linear_cross_entropy": False}}
    given = {"liger_kernel_config": {"rope": False}, "accelerator_config": {"even_batches": False}}
    assert merge_trl_arguments(ours, given) == {
        "use_liger_kernel": True,
        "liger_kernel_config": {"fused_linear_cross_entropy": False, "rope": False},
        "accelerator_config": {"even_batches": False},
    }
    assert merge_trl_arguments(ours, {"liger_kernel_config": None}) == {
        "use_liger_kernel": True,
        "liger_kernel_config": None,
    }


def test_nothing_is_told_where_nothing_is_asked_for(tmp_path: Path) -> None:
    assert kernel_arguments(SftParams(), 1, tmp_path) == {}


@pytest.mark.parametrize(
    ("params", "gpus", "message", "advice"),
    [
        (
            SftParams(use_liger_kernel=True),
            0,
            "`use_liger_kernel: true` needs a GPU",
            "remove `use_liger_kernel: true`",
        ),
        (SftParams(use_liger_kernel=True), 1, "Liger, which is not installed", "extra `cuda`"),
        (SftParams(torch_compile=True), 1, "Triton, which is not installed", "extra `cuda`"),
        (SftParams(torch_compile=True), 0, "a C++ compiler", "install g++"),
    ],
)
def test_what_is_missing_is_said_with_advice(
    params: SftParams, gpus: int, message: str, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "find_spec", lambda _: None)
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(StepError) as raised:
        kernel_arguments(params, gpus, tmp_path)
    assert message in str(raised.value)
    assert advice in raised.value.advice


_PLAIN = "params: {max_steps: 4, batch_size: 8, save_steps: 2}"
# All of torch.compile except for C++ code generation, which takes minutes on a busy machine.
_COMPILED = _PLAIN.replace("}", ", torch_compile: true}") + ", trl: {torch_compile_backend: aot_eager}"


@pytest.mark.slow
def test_a_compiled_model_learns_the_same_and_resumes_exactly(bench: StageHarness) -> None:
    stage = "it: {train: sft, model: base, data: sums.train, %s}"
    plain = bench.run(recipe(stage % _PLAIN))["it"]
    plan = compile_plan(recipe(stage % _COMPILED))
    step = plan.step("it")
    product = bench.run_step(plan, step)
    assert metrics(product, "loss") == pytest.approx(metrics(plain, "loss"), rel=1e-3)
    bench.reset_step(step)
    bench.prepare_step(plan, step)
    bench.kill_after_checkpoint(step, at=2)
    bench.prepare_step(plan, step)
    assert bench.wait(step) == 0, bench.failure(step)
    assert bench.commit(step).content_digest == product.content_digest
