"""The batch over several processes, and the arguments of TRL's trainers for strategies and engines."""

from typing import Any

import pytest

from posttrain.compiler.checks.trl_args import config_arguments
from posttrain.runtime.distributed import vllm_rollouts
from posttrain.runtime.distributed.strategy import split_batch, strategy_arguments
from posttrain.runtime.distributed.vllm_rollouts import vllm_engine_arguments
from posttrain.runtime.errors import StepError
from posttrain.spec.plan import Launch, Resources, SourceLocation, Step


def batch(size: int, times: int, **more: Any) -> dict[str, Any]:
    return {"per_device_train_batch_size": size, "gradient_accumulation_steps": times, **more}


def step(strategy: str, processes: int = 2, gpus: int = 0) -> Step:
    return Step(
        id="it",
        kind="train",
        entry="",
        params={},
        place=SourceLocation(file="recipe.yaml", line=1, column=1),
        key="",
        key_parts={},
        key_values={},
        launch=Launch(processes=processes, strategy=strategy),
        resources=Resources(gpus=gpus),
    )


@pytest.mark.parametrize(
    ("size", "times", "processes", "expected"),
    [
        (16, 1, 1, (16, 1)),
        (16, 1, 2, (8, 1)),  # without micro_batch_size, each process gets an equal share
        (4, 4, 2, (4, 2)),  # micro_batch_size counts the rows in one process
        (4, 8, 8, (4, 1)),
    ],
)
def test_the_batch_is_the_same_over_all_processes(
    size: int, times: int, processes: int, expected: tuple[int, int]
) -> None:
    found = split_batch(batch(size, times), processes)
    assert (found["per_device_train_batch_size"], found["gradient_accumulation_steps"]) == expected
    assert expected[0] * expected[1] * processes == size * times


@pytest.mark.parametrize(("size", "times", "processes"), [(16, 1, 3), (4, 3, 2)])
def test_a_batch_that_cannot_be_shared_is_refused(size: int, times: int, processes: int) -> None:
    with pytest.raises(StepError, match="cannot be divided among"):
        split_batch(batch(size, times), processes)


def test_completions_written_at_once_are_shared_by_whole_groups() -> None:
    """64 completions of 16 prompts for each of two steps: 64 for each of two processes."""
    found = split_batch(batch(16, 4, steps_per_generation=8, num_generations=4), 2)
    assert found["steps_per_generation"] == 4
    assert found["steps_per_generation"] * found["per_device_train_batch_size"] * 2 == 128
    with pytest.raises(StepError, match=r"not a multiple of num_generations \(4\)"):
        split_batch(batch(12, 1, steps_per_generation=1, num_generations=4), 2)


def test_deepspeed_is_told_the_batch_of_all_processes() -> None:
    arguments = strategy_arguments(step("zero3"), batch(4, 2))["deepspeed"]
    assert arguments["train_batch_size"] == 16
    assert arguments["zero_optimization"] == {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True}
    assert strategy_arguments(step("zero2"), batch(4, 2))["deepspeed"]["zero_optimization"] == {"stage": 2}


def test_a_cpu_is_said_to_the_trainer_and_gpus_are_not() -> None:
    assert strategy_arguments(step("ddp"), batch(4, 2)) == {"use_cpu": True}
    assert strategy_arguments(step("ddp", gpus=2), batch(4, 2)) == {}
    assert strategy_arguments(step("single", processes=1), batch(4, 2)) == {"use_cpu": True}
    assert strategy_arguments(step("single", gpus=1, processes=1), batch(4, 2)) == {}
    assert strategy_arguments(step("fsdp", gpus=2), batch(4, 2))["fsdp_config"]["version"] == 2


@pytest.mark.parametrize("kind", ["GRPOConfig", "RLOOConfig"])
def test_trl_has_the_arguments_of_vllm_that_are_given(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_rollouts, "find_spec", lambda _: "there")
    how: dict[str, Any] = {"mode": "colocate", "gpus": 0, "gpu_memory_utilization": 0.35}
    how |= {"tensor_parallel_size": 2, "enable_sleep_mode": True}
    arguments = vllm_engine_arguments(Launch(processes=2, strategy="ddp", engine="vllm", rollouts=how))
    assert arguments == {
        "use_vllm": True,
        "vllm_mode": "colocate",
        "vllm_gpu_memory_utilization": 0.35,
        "vllm_tensor_parallel_size": 2,
        "vllm_enable_sleep_mode": True,
    }
    assert arguments.keys() <= config_arguments(kind).keys()


def test_engines_that_are_not_there_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    vllm = Launch(engine="vllm", rollouts={"mode": "server", "gpus": 1})
    monkeypatch.setattr(vllm_rollouts, "find_spec", lambda _: None)
    assert vllm_engine_arguments(vllm.model_copy(update={"engine": "transformers"})) == {}
    with pytest.raises(StepError, match="vLLM, which is not installed"):
        vllm_engine_arguments(vllm)
    monkeypatch.setattr(vllm_rollouts, "find_spec", lambda _: "there")
    assert vllm_engine_arguments(vllm) == {"use_vllm": True, "vllm_mode": "server"}
