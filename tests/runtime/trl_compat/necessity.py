"""What the tests share that show a defect of the installed TRL or transformers without the patch."""

import inspect
from typing import Any


def obsolete(patch: str) -> str:
    """The message of a test that no longer finds the defect."""
    return (
        f"the installed release no longer needs the patch {patch}: delete trl_compat/{patch}.py, its calls"
        f" and tests/runtime/trl_compat/test_{patch}.py"
    )


def public_names(kind: type, *parts: str) -> set[str]:
    """The public names of a class that contain one of the parts."""
    return {name for name in dir(kind) if not name.startswith("_") and any(part in name for part in parts)}


def parameters(function: Any) -> set[str]:
    return set(inspect.signature(function).parameters)
