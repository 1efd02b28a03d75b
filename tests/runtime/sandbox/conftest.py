"""The fixture `sandbox`: every sandbox that works on this machine."""

import os

import pytest
from tests.conftest import require_service

from posttrain.runtime.sandbox.bubblewrap import Bubblewrap
from posttrain.runtime.sandbox.job import Sandbox
from posttrain.runtime.sandbox.landlock import landlock_abi_version
from posttrain.runtime.sandbox.sandbox_selection import select_sandbox

# Root uses a different sandbox by default, but can also use that of other users.
_KINDS = ["namespaces", *(["namespaces with users"] if os.getuid() == 0 else []), "landlock"]


@pytest.fixture(scope="session", params=_KINDS)
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    if request.param == "landlock":
        require_service(
            "Landlock",
            landlock_abi_version() or None,
            "a kernel of 5.13 or later, with Landlock among its modules",
        )
        return select_sandbox("landlock")
    request.getfixturevalue("bubblewrap")
    return select_sandbox("namespaces") if request.param == "namespaces" else Bubblewrap()
