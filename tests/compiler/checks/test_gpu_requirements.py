"""Tests targets without GPUs, and float16."""

import pytest

from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.pipeline import compile_recipe
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG

_STAGE = "{train: sft, model: base, data: sums.train, params: {epochs: 1, batch_size: 4}"
_MODEL = "tokenizer: {init: characters}"
_GPU = ("recipe: 1\n", "recipe: 1\nhardware: {gpus: 1xH100-80GB}\n")
_GRPO = (
    "{train: grpo, model: base, data: sums.train, reward: right, params: {max_steps: 4,"
    " max_completion_length: 16}"
)


def gpu_diagnostics(*changes: tuple[str, str]) -> list[tuple[str, str, str]]:
    """Return code, severity and place of the diagnostics about GPUs and float16."""
    source = SourceFile("recipe.yaml", minimal_recipe(*changes).encode())
    outcome = compile_recipe(CompileRequest(source=source, catalog=CATALOG, read=lambda _: None))
    reported = [d for d in outcome.diagnostics if d.code in ("PT1011", "PT1012")]
    lines = minimal_recipe(*changes).split("\n")
    return [
        (d.code, d.severity, lines[d.span.line - 1][d.span.column - 1 : d.span.end_column - 1])
        for d in reported
    ]


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ((_STAGE, _STAGE + ", adapter: {type: qlora}"), "qlora"),
        ((_MODEL, _MODEL + "\n    adapter: {type: qlora}"), "qlora"),
        ((_STAGE, _STAGE.replace("batch_size: 4", "batch_size: 4, use_liger_kernel: true")), "true"),
        ((_STAGE, _GRPO + ", placement: {rollouts: {engine: vllm}}"), "vllm"),
        (("{eval: sft,", "{eval: sft, engine: vllm,"), "vllm"),
    ],
)
def test_what_needs_a_gpu_says_so_where_it_is_asked_for(change: tuple[str, str], place: str) -> None:
    assert gpu_diagnostics(change) == [("PT1011", "warning", place)]
    assert gpu_diagnostics(change, _GPU) == []


def test_quantized_weights_under_an_adapter_need_one() -> None:
    quantized = (_MODEL, _MODEL + "\n    quantize: int8")
    assert gpu_diagnostics(quantized, (_STAGE, _STAGE + ", adapter: {type: lora}")) == [
        ("PT1011", "warning", "base")
    ]


@pytest.mark.parametrize(
    ("dtype", "more", "gpu", "severity"),
    [
        ("float32", "", False, "warning"),
        ("float32", "", True, None),
        ("float16", "", True, "error"),
        ("float16", ", adapter: {type: lora}", True, None),
        ("float16", ", placement: {strategy: zero2, num_processes: 2}", True, None),
        ("auto", "", True, None),
    ],
)
def test_half_precision(dtype: str, more: str, gpu: bool, severity: str | None) -> None:
    stage = _STAGE.replace("batch_size: 4", "batch_size: 4, precision: float16") + more
    changes = [(_MODEL, f"{_MODEL}\n    dtype: {dtype}"), (_STAGE, stage)]
    reported = gpu_diagnostics(
        *changes, *([("recipe: 1\n", "recipe: 1\nhardware: {gpus: 2xH100-80GB}\n")] if gpu else [])
    )
    assert [(code, kind) for code, kind, _ in reported] == ([("PT1012", severity)] if severity else [])
