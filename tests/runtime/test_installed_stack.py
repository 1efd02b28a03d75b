"""The versions of the stack match those of importlib.metadata."""

from importlib.metadata import PackageNotFoundError, version

from posttrain.runtime.installed_stack import installed_stack
from posttrain.spec.pinned_versions import PINNED_VERSIONS


def test_the_versions_are_those_that_are_installed() -> None:
    for name, installed in installed_stack().items():
        try:
            assert installed == version(name), name
        except PackageNotFoundError:
            assert installed == PINNED_VERSIONS[name], name
