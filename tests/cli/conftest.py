"""Fixtures that use packages of the npm registry, and publishers of signed products."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.lsp_session import LanguageServer
from tests.cli.npm_packages import install_npm_package
from tests.cli.publisher import Publisher
from tests.recipe_command import run_command


@pytest.fixture(scope="session")
def sarif_schema(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The schema of SARIF 2.1.0 from Microsoft's npm package."""
    package = install_npm_package(tmp_path_factory.mktemp("npm"), "@microsoft/jest-sarif", "1.0.0-beta.0")
    return package / "lib" / "schemas" / "sarif-2.1.0-rtm.5.json"


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LanguageServer]:
    """A session with the YAML language server, in a folder with the schema of recipes."""
    package = install_npm_package(tmp_path_factory.mktemp("npm"), "yaml-language-server", "1.25.0")
    folder = tmp_path_factory.mktemp("recipes")
    (folder / "schema.json").write_text(run_command("schema").stdout)
    with LanguageServer(package / "bin" / "yaml-language-server", folder) as server:
        yield server


@pytest.fixture
def publisher(tmp_path: Path, registry: str, monkeypatch: pytest.MonkeyPatch) -> Publisher:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Publisher(tmp_path, registry)


@pytest.fixture
def product(publisher: Publisher) -> str:
    """A published product that is not signed."""
    publisher.run()
    return publisher.push("double")
