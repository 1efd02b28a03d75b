"""What methods share that learn from pairs: a prompt, a chosen completion and a rejected one."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from posttrain.runtime.faults import StepFault
from posttrain.spec.types import Columns

# The column sets in which pairs come. Without a prompt, what both begin with is taken for it.
PAIRS: tuple[Columns, ...] = (
    {"prompt": "text", "chosen": "text", "rejected": "text"},
    {"prompt": "messages", "chosen": "messages", "rejected": "messages"},
    {"chosen": "messages", "rejected": "messages"},
)
# Metadata of TRL's experimental methods: the module that each is in.
_EXPERIMENTAL: Mapping[str, str] = {
    "orpo": "trl.experimental.orpo",
    "cpo": "trl.experimental.cpo",
}


def experimental(name: str) -> Any:
    """A module of TRL's experimental part, which may lose it from one release to the next."""
    try:
        return import_module(_EXPERIMENTAL[name])
    except ImportError:
        from importlib.metadata import version

        raise StepFault(
            f"the installed TRL ({version('trl')}) has no {name} any more",
            "install the release that posttrain is pinned to, or train with dpo",
        ) from None
