"""A local server for the tests of the preflight."""

from collections.abc import Iterator

import pytest
from tests.runtime.preflight.local_services import LocalServices, run_services


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalServices]:
    """The server is the hub; no token and no proxy of the caller is used."""
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_TOKEN_PATH", "/dev/null")
    with run_services() as found:
        monkeypatch.setenv("HF_ENDPOINT", found.url)
        yield found
