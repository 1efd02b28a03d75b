"""Damaged files of credentials, and helpers that fail: no traceback, and no silent use without an account."""

import json
from pathlib import Path

import pytest

from posttrain.runtime.registry.docker_credentials import stored_credentials

HOST = "registry.example.com"


def write_config(tmp_path: Path, text: str) -> None:
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker" / "config.json").write_text(text)


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '"x"', "[" * 100_000, '{"auths": [1]}', '{"credsStore": 4}', '{"credHelpers": ["x"]}']
    + [json.dumps({"auths": {HOST: {"auth": auth}}}) for auth in (3, "YWJj", "\u00e9")],
)
def test_a_damaged_file_is_reported(text: str, tmp_path: Path) -> None:
    write_config(tmp_path, text)
    assert "the stored credentials cannot be read" in stored_credentials(HOST).problem


@pytest.mark.parametrize("output", ["echo no json", "echo [1]", "echo {}", "printf '\\377'", "exit 3"])
def test_a_helper_that_fails_is_reported(
    output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = tmp_path / "docker-credential-test"
    helper.write_text(f"#!/bin/sh\n{output}\n")
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    write_config(tmp_path, json.dumps({"credHelpers": {HOST: "test"}}))
    assert "the stored credentials cannot be read" in stored_credentials(HOST).problem


def test_no_file_and_an_empty_one_have_no_credentials(tmp_path: Path) -> None:
    assert stored_credentials(HOST).problem == ""
    write_config(tmp_path, "{}")
    assert stored_credentials(HOST).problem == ""
