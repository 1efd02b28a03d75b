"""The extensions by kind and name. Adding one is its file and one line here; outsiders use entry points.

Modules are imported when a recipe names them, never before: `recipe validate` stays light.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from posttrain.spec.extension import Extension, Kind

_OURS: Mapping[Kind, Mapping[str, str]] = {
    "verb": {
        "model": "posttrain.runtime.verbs.model",
        "data": "posttrain.runtime.verbs.data",
        "eval": "posttrain.runtime.verbs.eval",
        "gate": "posttrain.runtime.verbs.gate",
        "export": "posttrain.runtime.verbs.export",
        "generate": "posttrain.runtime.verbs.generate",
        "script": "posttrain.runtime.verbs.script",
    },
    "method": {
        "sft": "posttrain.runtime.methods.sft",
        "grpo": "posttrain.runtime.methods.grpo",
    },
    "reward": {
        "between": "posttrain.runtime.rewards.between",
        "present": "posttrain.runtime.rewards.present",
        "equal": "posttrain.runtime.rewards.equal",
        "math_equal": "posttrain.runtime.rewards.math_equal",
        "score": "posttrain.runtime.rewards.score",
        "sum": "posttrain.runtime.rewards.sum",
    },
    "data": {},
    "source": {
        "arithmetic": "posttrain.runtime.sources.arithmetic",
        "files": "posttrain.runtime.sources.files",
    },
    "engine": {},
    "runner": {},
    "environment": {},
    "tracker": {},
}


class RuntimeCatalog:
    """Finds extensions by kind and name, ours first."""

    def find(self, kind: Kind, name: str) -> Extension | None:
        module = self._module(kind, name)
        return None if module is None else _extension(module)

    def names(self, kind: Kind) -> Sequence[str]:
        return sorted({*_OURS[kind], *_installed(kind)})

    def entry(self, kind: Kind, name: str) -> str:
        module = self._module(kind, name)
        assert module is not None, f"no {kind} is named {name}"
        return f"{module}:run"

    def run(self, kind: Kind, name: str) -> Any:
        """The function that does the extension's work."""
        return load(self.entry(kind, name))

    def _module(self, kind: Kind, name: str) -> str | None:
        return _OURS[kind].get(name) or _installed(kind).get(name)


def load(entry: str) -> Any:
    """The function that `module:function` names."""
    module, _, function = entry.partition(":")
    return getattr(import_module(module), function)


@cache
def _extension(module: str) -> Extension:
    found = import_module(module).EXTENSION
    assert isinstance(found, Extension), f"{module}.EXTENSION is no extension"
    return found


@cache
def _installed(kind: Kind) -> Mapping[str, str]:
    """Extensions of other distributions: entry points of the group `posttrain.KIND`."""
    from importlib.metadata import entry_points

    return {point.name: point.module for point in entry_points(group=f"posttrain.{kind}")}


CATALOG = RuntimeCatalog()
