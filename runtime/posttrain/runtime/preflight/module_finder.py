"""Finds modules in the interpreter that runs this file: `PYTHON -c PROGRAM MODULES`.

MODULES is a JSON list of dotted names. It prints a JSON list of those that it does not find. This file
imports only the standard library, because another interpreter can run it. It imports none of the modules: it
asks the finders for the top level, and searches packages for the rest.
"""

import importlib.util
import json
import sys
from importlib.machinery import PathFinder
from pathlib import Path


def main(names: list[str]) -> None:
    # Without the working folder, which the interpreter adds: the user's code runs in another one.
    del sys.path[0]
    print(json.dumps([name for name in names if not has_module(name)]))


def has_module(name: str) -> bool:
    """Whether an import of the module finds it. Names in a package without a file are assumed to exist."""
    top, *rest = name.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):  # ValueError: a module without a spec
        return top in sys.modules
    for part in rest:
        if spec is None:
            return False
        folders: list[str] | None = list(spec.submodule_search_locations or [])
        if not folders:
            return spec.origin is None or not spec.origin.endswith(".py")
        top = top + "." + part
        found = PathFinder.find_spec(top, folders)
        if found is None:  # a package can add modules when it is imported
            return _is_dynamic(spec.origin)
        spec = found
    return spec is not None


def _is_dynamic(origin: str | None) -> bool:
    """Whether the file of a package can define submodules in another way than by files."""
    if origin is None or not origin.endswith(".py"):
        return True
    text = Path(origin).read_text(encoding="utf-8", errors="replace")
    return "sys.modules" in text or "__path__" in text


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
