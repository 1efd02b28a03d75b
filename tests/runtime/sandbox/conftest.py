"""The boxes that programs are tried in: every kind that this machine can make."""

import os

import pytest
from tests.conftest import need

from posttrain.runtime.sandbox.boxes import box as chosen
from posttrain.runtime.sandbox.bubblewrap import Bubblewrap
from posttrain.runtime.sandbox.job import Box
from posttrain.runtime.sandbox.landlock import version

# Root has a way of its own, and can go the others' way.
_KINDS = ["namespaces", *(["namespaces with users"] if os.getuid() == 0 else []), "landlock"]


@pytest.fixture(scope="session", params=_KINDS)
def box(request: pytest.FixtureRequest) -> Box:
    if request.param == "landlock":
        need("Landlock", version() or None, "a kernel of 5.13 or later, with Landlock among its modules")
        return chosen("landlock")
    request.getfixturevalue("bubblewrap")
    return chosen("namespaces") if request.param == "namespaces" else Bubblewrap()
