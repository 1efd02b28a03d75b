"""Registers the extensions by kind and name. A new built-in extension needs its file and a line here.

A line names a module with `EXTENSION` and `run`, or `module:ATTRIBUTE:function` when extensions share a
module. Other distributions register extensions as entry points. A module is imported only when a recipe
names its extension, so that `recipe validate` stays fast.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from posttrain.spec.extension import Extension, ExtensionKind

_BUILTIN: Mapping[ExtensionKind, Mapping[str, str]] = {
    "verb": {
        "model": "posttrain.runtime.verbs.model",
        "data": "posttrain.runtime.verbs.data",
        "eval": "posttrain.runtime.verbs.eval",
        "benchmark": "posttrain.runtime.verbs.benchmark",
        "gate": "posttrain.runtime.verbs.gate",
        "export": "posttrain.runtime.verbs.export",
        "generate": "posttrain.runtime.verbs.generate",
        "script": "posttrain.runtime.verbs.script",
    },
    "method": {
        "sft": "posttrain.runtime.methods.sft",
        "reward_model": "posttrain.runtime.methods.reward_model",
        "dpo": "posttrain.runtime.methods.dpo",
        "ipo": "posttrain.runtime.methods.ipo",
        "kto": "posttrain.runtime.methods.kto",
        "orpo": "posttrain.runtime.methods.orpo",
        "cpo": "posttrain.runtime.methods.cpo",
        "simpo": "posttrain.runtime.methods.simpo",
        "grpo": "posttrain.runtime.methods.grpo",
        "rloo": "posttrain.runtime.methods.rloo",
        "ppo": "posttrain.runtime.methods.ppo",
    },
    "reward": {
        "after": "posttrain.runtime.rewards.ops.before_after:AFTER:run_after",
        "all": "posttrain.runtime.rewards.ops.all_any:ALL:run_all",
        "any": "posttrain.runtime.rewards.ops.all_any:ANY:run_any",
        "before": "posttrain.runtime.rewards.ops.before_after:BEFORE:run_before",
        "between": "posttrain.runtime.rewards.ops.between",
        "boxed": "posttrain.runtime.rewards.ops.boxed",
        "cases": "posttrain.runtime.rewards.ops.cases",
        "clip": "posttrain.runtime.rewards.ops.clip",
        "code_block": "posttrain.runtime.rewards.ops.code_block",
        "code_tests": "posttrain.runtime.rewards.ops.code_tests",
        "compare": "posttrain.runtime.rewards.ops.compare",
        "contains": "posttrain.runtime.rewards.ops.contains",
        "count": "posttrain.runtime.rewards.ops.count",
        "environment": "posttrain.runtime.rewards.ops.environment",
        "equal": "posttrain.runtime.rewards.ops.equal",
        "final_answer": "posttrain.runtime.rewards.ops.final_answer",
        "first_number": "posttrain.runtime.rewards.ops.first_last_number:FIRST_NUMBER:run_first_number",
        "gate": "posttrain.runtime.rewards.ops.gate",
        "in_order": "posttrain.runtime.rewards.ops.in_order",
        "json_path": "posttrain.runtime.rewards.ops.json_path",
        "json_schema": "posttrain.runtime.rewards.ops.json_schema",
        "judge": "posttrain.runtime.rewards.ops.judge",
        "language": "posttrain.runtime.rewards.ops.language",
        "last_number": "posttrain.runtime.rewards.ops.first_last_number:LAST_NUMBER:run_last_number",
        "length": "posttrain.runtime.rewards.ops.length",
        "matches": "posttrain.runtime.rewards.ops.matches",
        "math_equal": "posttrain.runtime.rewards.ops.math_equal",
        "max": "posttrain.runtime.rewards.ops.min_max:MAX:run_max",
        "mean": "posttrain.runtime.rewards.ops.mean",
        "min": "posttrain.runtime.rewards.ops.min_max:MIN:run_min",
        "normalize": "posttrain.runtime.rewards.ops.normalize",
        "not": "posttrain.runtime.rewards.ops.not_",
        "number": "posttrain.runtime.rewards.ops.number",
        "numeric": "posttrain.runtime.rewards.ops.numeric",
        "one_of": "posttrain.runtime.rewards.ops.one_of",
        "present": "posttrain.runtime.rewards.ops.present",
        "product": "posttrain.runtime.rewards.ops.product",
        "python": "posttrain.runtime.rewards.ops.python",
        "ramp": "posttrain.runtime.rewards.ops.ramp",
        "reasoning_gym": "posttrain.runtime.rewards.ops.reasoning_gym",
        "regex": "posttrain.runtime.rewards.ops.regex",
        "repetition": "posttrain.runtime.rewards.ops.repetition",
        "reward_model": "posttrain.runtime.rewards.ops.reward_model",
        "scale": "posttrain.runtime.rewards.ops.scale",
        "score": "posttrain.runtime.rewards.ops.score",
        "similarity": "posttrain.runtime.rewards.ops.similarity",
        "sum": "posttrain.runtime.rewards.ops.sum",
        "thresholds": "posttrain.runtime.rewards.ops.thresholds",
        "tokens": "posttrain.runtime.rewards.ops.tokens",
        "tool_call": "posttrain.runtime.rewards.ops.tool_call",
        "weighted": "posttrain.runtime.rewards.ops.weighted",
    },
    "data": {
        "chat": "posttrain.runtime.data.chat",
        "conversations": "posttrain.runtime.data.conversations",
        "decontaminate": "posttrain.runtime.data.decontaminate",
        "last_turn": "posttrain.runtime.data.last_turn",
        "length_percentile": "posttrain.runtime.data.length_percentile",
        "max_length": "posttrain.runtime.data.max_length",
        "near_duplicates": "posttrain.runtime.data.near_duplicates",
        "pair": "posttrain.runtime.data.pair",
        "python": "posttrain.runtime.data.python",
        "repeat": "posttrain.runtime.data.repeat",
        "unpair": "posttrain.runtime.data.unpair",
    },
    "source": {
        "arithmetic": "posttrain.runtime.sources.arithmetic",
        "files": "posttrain.runtime.sources.files",
        "hub": "posttrain.runtime.sources.hub",
        "reasoning_gym": "posttrain.runtime.sources.reasoning_gym",
        "rows": "posttrain.runtime.sources.rows",
        "text": "posttrain.runtime.sources.text",
    },
    "engine": {
        "http": "posttrain.runtime.engines.http",
        "transformers": "posttrain.runtime.engines.transformers",
        "vllm": "posttrain.runtime.engines.vllm",
    },
    "runner": {},
    "environment": {
        "appworld": "posttrain.runtime.environments.appworld",
        "calculator": "posttrain.runtime.environments.calculator",
        "guess": "posttrain.runtime.environments.guess",
        "python": "posttrain.runtime.environments.python",
        "textarena": "posttrain.runtime.environments.textarena",
    },
    "tracker": {
        "mlflow": "posttrain.runtime.trackers.mlflow",
        "tensorboard": "posttrain.runtime.trackers.tensorboard",
        "trackio": "posttrain.runtime.trackers.trackio",
        "wandb": "posttrain.runtime.trackers.wandb",
    },
}


class RuntimeCatalog:
    """Finds extensions by kind and name; built-in ones take precedence."""

    def find(self, kind: ExtensionKind, name: str) -> Extension | None:
        """The extension. Raises ExtensionError if the module of another distribution does not load."""
        if name in _BUILTIN[kind]:
            return _load_extension(_BUILTIN[kind][name])
        location = _entry_points(kind).get(name)
        return None if location is None else _load_foreign_extension(kind, name, location)

    def has(self, kind: ExtensionKind, name: str) -> bool:
        return self._location(kind, name) is not None

    def names(self, kind: ExtensionKind) -> Sequence[str]:
        return sorted({*_BUILTIN[kind], *_entry_points(kind)})

    def entry(self, kind: ExtensionKind, name: str) -> str:
        """`module:function` of the function that implements the extension."""
        location = self._location(kind, name)
        assert location is not None, f"there is no {kind} {name}"
        module, _, function = _split_location(location)
        return f"{module}:{function}"

    def run(self, kind: ExtensionKind, name: str) -> Any:
        """The function that implements the extension."""
        return load_entry(self.entry(kind, name))

    def _location(self, kind: ExtensionKind, name: str) -> str | None:
        return _BUILTIN[kind].get(name) or _entry_points(kind).get(name)


def load_entry(entry: str) -> Any:
    """Import the function `module:function`."""
    module, _, function = entry.partition(":")
    return getattr(import_module(module), function)


def _split_location(location: str) -> tuple[str, str, str]:
    """Split `module` or `module:ATTRIBUTE:function` into module, extension attribute and function."""
    module, *names = location.split(":")
    attribute, function = names or ("EXTENSION", "run")
    return module, attribute, function


@cache
def _load_extension(location: str) -> Extension:
    module, attribute, _ = _split_location(location)
    extension = getattr(import_module(module), attribute)
    assert isinstance(extension, Extension), f"{module}.{attribute} is not an extension"
    return extension


@cache
def _load_foreign_extension(kind: ExtensionKind, name: str, module: str) -> Extension:
    """An extension of another distribution, which can contain errors."""
    from posttrain.runtime.foreign_extension import load_foreign_extension

    return load_foreign_extension(kind, name, module)


@cache
def _entry_points(kind: ExtensionKind) -> Mapping[str, str]:
    """Extensions of other distributions: entry points of the group `posttrain.KIND`, one module each."""
    from importlib.metadata import entry_points

    return {point.name: point.module for point in entry_points(group=f"posttrain.{kind}")}


CATALOG = RuntimeCatalog()
