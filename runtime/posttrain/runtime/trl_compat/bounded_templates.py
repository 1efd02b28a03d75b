"""Limits the work of a chat template. transformers renders it in a sandbox without limits.

A template that loops does not return, and one that doubles a text takes all memory.

    transformers/utils/chat_template_utils.py:489 `_cached_compile_jinja_template`: `jinja_env = Immutable`
"""

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_MODULE = "transformers.utils.chat_template_utils"


def bound_chat_templates() -> None:
    """Have transformers render in the sandbox of `bounded_jinja.py`, also if it is not imported yet."""
    if _MODULE in sys.modules:
        _replace_sandbox(sys.modules[_MODULE])
    elif not any(isinstance(finder, _AfterImport) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterImport())


def _replace_sandbox(module: Any) -> None:
    from posttrain.runtime.models.bounded_jinja import BoundedEnvironment

    module.ImmutableSandboxedEnvironment = BoundedEnvironment


class _AfterImport(MetaPathFinder):
    """Replaces the sandbox when transformers is imported. Steps that do not need it do not import it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _PatchingLoader(spec.loader)
        return spec


class _PatchingLoader(Loader):
    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _replace_sandbox(module)
