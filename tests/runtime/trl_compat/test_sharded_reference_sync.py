"""Updates of a reference model under ZeRO-3. `test_multi_process.py` resumes such a run."""

import inspect
from types import SimpleNamespace
from typing import Any

import pytest
from tests.runtime.trl_compat.necessity import obsolete
from trl.trainer.callbacks import SyncRefModelCallback

from posttrain.runtime.trl_compat.sharded_reference_sync import sync_sharded_reference


def test_trl_gathers_all_weights_of_both_models() -> None:
    source = inspect.getsource(SyncRefModelCallback.sync_target_model)
    gathered = source.partition("GatheredParameters(")[2].partition(")")[0]
    assert "list(model.parameters(" in gathered, obsolete("sharded_reference_sync")


@pytest.mark.parametrize("synced", [True, False])
def test_the_callback_is_replaced_where_there_is_one(synced: bool) -> None:
    removed: list[Any] = []
    added: list[Any] = []
    args = SimpleNamespace(sync_ref_model=synced)
    sync_sharded_reference(
        SimpleNamespace(args=args, remove_callback=removed.append, add_callback=added.append)
    )
    assert removed == [SyncRefModelCallback] * synced
    assert len(added) == synced
