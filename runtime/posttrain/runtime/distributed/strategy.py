"""The trainer arguments by which its processes share the work as planned, and the check that they do."""

from collections.abc import Mapping
from typing import Any

from posttrain.runtime.errors import StepError
from posttrain.spec.plan import Launch, Step

_AUTO = "auto"
# The strategies under which no process has the whole model.
SHARDED_STRATEGIES = ("zero3", "fsdp")
_ADVICE = "this is a mistake of ours or of the installed stack: the stage would not train as it was planned"


def split_batch(own: Mapping[str, Any], processes: int) -> dict[str, Any]:
    """The arguments of a batch for each of several processes, so that together they make the same batch."""
    size, times = own["per_device_train_batch_size"], own["gradient_accumulation_steps"]
    if processes == 1:
        return dict(own)
    if times % processes == 0:
        times //= processes
    elif times == 1 and size % processes == 0:
        size //= processes
    else:
        raise StepError(
            f"{times} micro-batches of {size} do not divide over {processes} processes",
            "change batch_size, micro_batch_size or the number of processes",
        )
    changed = {**own, "per_device_train_batch_size": size, "gradient_accumulation_steps": times}
    if "steps_per_generation" in own:
        changed["steps_per_generation"] = (
            own["steps_per_generation"] * times // own["gradient_accumulation_steps"]
        )
        _check_groups(size * changed["steps_per_generation"], own["num_generations"], processes)
    return changed


def _check_groups(completions: int, group: int, processes: int) -> None:
    """Completions of one prompt are compared with each other: one process has all of them."""
    if completions % group:
        raise StepError(
            f"each of {processes} processes generates {completions} completions at once, which are no whole"
            f" groups of {group}",
            f"make `num_prompts` x `optimizer_steps_per_generation` a multiple of {processes}, or take"
            " another number of processes",
        )


def strategy_arguments(step: Step, own: Mapping[str, Any]) -> dict[str, Any]:
    """What TRL's trainers take to divide the model's states over the processes; `own` has their batch."""
    # Said to the trainer and not in the environment, where it would turn DeepSpeed off without a word.
    # Unless it is said, half precision is refused on a CPU.
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
            raise StepError(f"the plan divides the stage by `{other}`, which is not known here", _ADVICE)


def _deepspeed_config(stage: int, processes: int, own: Mapping[str, Any]) -> dict[str, Any]:
    size, times = own["per_device_train_batch_size"], own["gradient_accumulation_steps"]
    zero: dict[str, Any] = {"stage": stage}
    if stage == 3:  # without this its saved weights are empty
        zero["stage3_gather_16bit_weights_on_model_save"] = True
    return {
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        # Left to be filled in, the first would be that of one process.
        "train_batch_size": size * times * processes,
        "train_micro_batch_size_per_gpu": size,
        "gradient_accumulation_steps": times,
        "gradient_clipping": _AUTO,
        "bf16": {"enabled": _AUTO},
        "fp16": {"enabled": _AUTO},
    }


def check_strategy_installed(launch: Launch) -> None:
    """Say what is missing before anything is loaded."""
    from importlib.util import find_spec

    if launch.strategy.startswith("zero") and find_spec("deepspeed") is None:
        raise StepError(
            f"the plan divides the stage by {launch.strategy}, and DeepSpeed is not installed",
            "install posttrain with its extra `cuda`, or write `placement: {strategy: ddp}`",
        )


def check_strategy_applied(trainer: Any, launch: Launch) -> None:
    """Check before the first step that the trainer has taken the strategy of the plan."""
    found = _applied_strategy(trainer)
    expected = {
        "processes": launch.processes,
        "strategy": launch.strategy,
        "wrapper": _WRAPPERS[launch.strategy],
    }
    wrong = [f"{name} {found[name]} instead of {planned}" for name, planned in expected.items()]
    wrong = [text for text, name in zip(wrong, expected, strict=True) if found[name] != expected[name]]
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
    """The weights of a model that is divided over the processes, brought together; None where it is whole."""
    if launch.strategy not in SHARDED_STRATEGIES:
        return None
    return trainer.accelerator.get_state_dict(trainer.model_wrapped)
