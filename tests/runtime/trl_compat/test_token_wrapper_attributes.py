"""Attributes of modules of which an adapter trains single rows."""

from typing import Any

import pytest
import torch
from peft.utils.other import TrainableTokensWrapper
from tests.runtime.trl_compat.necessity import obsolete

from posttrain.runtime.trl_compat.token_wrapper_attributes import expose_wrapped_attributes


def wrapped_head() -> Any:
    return TrainableTokensWrapper(torch.nn.Linear(2, 4, bias=False), "default", token_indices=[1])


@pytest.fixture
def unpatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo the patch after the test, which other tests of this process do not expect."""
    for name in ("_hasattr_wrapped", "_getattr_wrapped"):
        monkeypatch.setattr(TrainableTokensWrapper, name, getattr(TrainableTokensWrapper, name))
    monkeypatch.setattr(TrainableTokensWrapper, "exposes_attributes", False, raising=False)


@pytest.mark.usefixtures("unpatched")
def test_the_wrapper_has_the_attributes_of_its_module() -> None:
    head = wrapped_head()
    if not getattr(vars(TrainableTokensWrapper)["_hasattr_wrapped"], "__closure__", None):
        assert not hasattr(head, "bias"), obsolete("token_wrapper_attributes")
    expose_wrapped_attributes()
    assert head.bias is None
    assert head.out_features == 4
    with torch.no_grad():
        head.token_adapter.trainable_tokens_delta["default"].fill_(7)
    assert head.weight[1].tolist() == [7, 7]
    with pytest.raises(AttributeError):
        _ = head.num_embeddings
