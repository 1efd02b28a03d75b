"""Removes TRL's copy of the initial adapter from a checkpoint.

When training continues an adapter, TRL adds a copy of it named `ref` as the reference model, and a checkpoint
has that copy in a folder of its own. The Trainer then loads only the adapters in such folders, and resumes
without the trained adapter. The copy never changes, so a resumed run recreates it from the starting model.

    trl/trainer/dpo_trainer.py:689 `DPOTrainer.__init__`: `model.add_adapter("ref", default_config)`
    transformers/trainer.py:3571 `Trainer._load_from_checkpoint`: `for subdir_name in adapter_subdirs:`
"""

import shutil
from pathlib import Path

_ADAPTER_NAME = "ref"


def remove_reference_adapter(checkpoint: Path) -> None:
    """Remove the copy of the initial adapter, if the checkpoint has one."""
    shutil.rmtree(checkpoint / _ADAPTER_NAME, ignore_errors=True)
