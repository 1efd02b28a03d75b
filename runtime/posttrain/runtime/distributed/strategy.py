"""Trainer arguments for the planned strategy (DDP, ZeRO, FSDP), and the check that the trainer applies it."""

from collections.abc import Mapping
from typing import Any

from posttrain.runtime.errors import StepError
from posttrain.spec.plan import Launch, Step

_AUTO = "auto"
# The strategies that shard the weights of the model.
SHARDED_STRATEGIES = ("zero3", "fsdp")
_ADVICE = "this is an internal error of posttrain or of the installed libraries: please report it"


def split_batch(own: Mapping[str, Any], processes: int) -> dict[str, Any]:
    """Return the batch arguments for one of several processes, so that together they have the same batch."""
    size, times = own["per_device_train_batch_size"], own["gradient_accumulation_steps"]
    if processes == 1:
        return dict(own)
    if times % processes == 0:
        times //= processes
    elif times == 1 and size % processes == 0:
        size //= processes
    else:
        raise StepError(
            f"{times} micro-batches of {size} cannot be divided among {processes} processes",
            "change batch_size, micro_batch_size or `placement.num_processes`",
        )
    changed = {**own, "per_device_train_batch_size": size, "gradient_accumulation_steps": times}
    if "steps_per_generation" in own:
        changed["steps_per_generation"] = (
            own["steps_per_generation"] * times // own["gradient_accumulation_steps"]
        )
        _check_groups(size * changed["steps_per_generation"], own["num_generations"], processes)
    return changed


def _check_groups(completions: int, group: int, processes: int) -> None:
    """Check that each process has all completions of its prompts, since they are compared with each other."""
    if completions % group:
        raise StepError(
            f"each of {processes} processes generates {completions} completions at once, which is not a"
            f" multiple of num_generations ({group})",
            f"make `num_prompts` x `optimizer_steps_per_generation` a multiple of {processes}, or change"
            " `placement.num_processes`",
        )


def strategy_arguments(step: Step, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the trainer arguments for the device and the strategy; `own` has the batch of a process."""
    # Without use_cpu, the trainer rejects half precision on a CPU. It is passed as an argument because the
    # corresponding environment variable silently disables DeepSpeed.
    on = {"use_cpu": True} if step.resources.gpus == 0 else {}
    return on if step.launch.processes == 1 else {**on, **_sharding_arguments(step.launch, own)}


def _sharding_arguments(launch: Launch, own: Mapping[str, Any]) -> dict[str, Any]:
    match launch.strategy:
        case "single" | "ddp":
            return {}
        case "zero1" | "zero2" | "zero3":
            return {"deepspeed": _deepspeed_config(int(launch.strategy[-1]), launch.processes, own)}
        case "fsdp":
            return {
                "fsdp": "full_shard auto_wrap",
                "fsdp_config": {
                    "version": 2,
                    "reshard_after_forward": True,
                    "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
                    "state_dict_type": "SHARDED_STATE_DICT",
                },
            }
        case other:
            raise StepError(f"the plan has the unknown strategy `{other}`", _ADVICE)


def _deepspeed_config(stage: int, processes: int, own: Mapping[str, Any]) -> dict[str, Any]:
    size, times = own["per_device_train_batch_size"], own["gradient_accumulation_steps"]
    zero: dict[str, Any] = {"stage": stage}
    if stage == 3:  # without this option the saved weights are empty
        zero["stage3_gather_16bit_weights_on_model_save"] = True
    return {
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        # Set explicitly: with `auto`, train_batch_size would be that of one process.
        "train_batch_size": size * times * processes,
        "train_micro_batch_size_per_gpu": size,
        "gradient_accumulation_steps": times,
        "gradient_clipping": _AUTO,
        "bf16": {"enabled": _AUTO},
        "fp16": {"enabled": _AUTO},
    }


def check_strategy_installed(launch: Launch) -> None:
    """Check for DeepSpeed before any model is loaded."""
    from importlib.util import find_spec

    if launch.strategy.startswith("zero") and find_spec("deepspeed") is None:
        raise StepError(
            f"the strategy {launch.strategy} needs DeepSpeed, which is not installed",
            "install posttrain with its extra `cuda`, or set `placement: {strategy: ddp}`",
        )


def check_strategy_applied(trainer: Any, launch: Launch) -> None:
    """Check before the first step that the trainer applies the planned strategy."""
    applied = _applied_strategy(trainer)
    expected = {
        "processes": launch.processes,
        "strategy": launch.strategy,
        "wrapper": _WRAPPERS[launch.strategy],
    }
    wrong = [
        f"{name} {applied[name]} instead of {planned}"
        for name, planned in expected.items()
        if applied[name] != planned
    ]
    if wrong:
        raise StepError(f"the stage does not run as planned: {', '.join(wrong)}", _ADVICE)


_WRAPPERS: Mapping[str, str] = {
    "single": "none",
    "ddp": "DistributedDataParallel",
    "zero1": "DeepSpeedEngine",
    "zero2": "DeepSpeedEngine",
    "zero3": "DeepSpeedEngine",
    "fsdp": "FSDPModule",
}


def _applied_strategy(trainer: Any) -> dict[str, Any]:
    from accelerate import DistributedType

    accelerator = trainer.accelerator
    kind = accelerator.distributed_type
    if kind == DistributedType.NO:
        strategy = "single"
    elif kind == DistributedType.DEEPSPEED:
        strategy = f"zero{accelerator.state.deepspeed_plugin.zero_stage}"
    elif kind == DistributedType.FSDP:
        strategy = "fsdp"
    else:
        strategy = "ddp"
    return {
        "processes": accelerator.num_processes,
        "strategy": strategy,
        "wrapper": _wrapper_name(trainer.model_wrapped),
    }


def _wrapper_name(model: Any) -> str:
    names = [kind.__name__ for kind in type(getattr(model, "_orig_mod", model)).__mro__]  # if compiled
    return next((name for name in dict.fromkeys(_WRAPPERS.values()) if name in names), "none")


def full_state_dict(trainer: Any, launch: Launch) -> Any:
    """Return the gathered weights of a sharded model, or None if the model is not sharded."""
    if launch.strategy not in SHARDED_STRATEGIES:
        return None
    return trainer.accelerator.get_state_dict(trainer.model_wrapped)
