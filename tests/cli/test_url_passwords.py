"""Passwords in URLs appear in no output: diagnostics in any format, plans, logs and reports."""

from pathlib import Path

import pytest
from tests.recipe_command import run_command

from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE
from posttrain.runtime.secret_masking import mask_secrets
from posttrain.spec.url_passwords import mask_url_passwords, url_passwords

PASSWORD = "hunter2-" + "x" * 40  # longer than the part of a value that messages show
URL = f"https://me:{PASSWORD}@example.com/v1"
ENDPOINT = "endpoints:\n  judge: {provider: vllm, model: m, base_url: %s}\n"


@pytest.mark.parametrize(
    "recipe",
    [
        MINIMAL_RECIPE + ENDPOINT % f'"{URL}"',
        MINIMAL_RECIPE + f'vars: {{address: "{URL}"}}\n' + ENDPOINT % '"${vars.address}"',
        MINIMAL_RECIPE.replace("name: demo", f'name: "{URL}"'),
        MINIMAL_RECIPE.replace("arithmetic: {digits: 2, count: 200}", f'files: "{URL}"'),
        MINIMAL_RECIPE.replace("batch_size: 4", f'batch_size: "{URL}"'),
        MINIMAL_RECIPE.replace("model: base", f'model: "{URL}"'),
        MINIMAL_RECIPE.replace("name: demo", f'name: demo\n"{URL}": 3'),
        f'extends: "{URL}"\n' + MINIMAL_RECIPE,
        MINIMAL_RECIPE + f'container: {{image: "{URL}"}}\n',
        MINIMAL_RECIPE + f'  fetch: {{script: [curl, "{URL}"], network: true}}\n',
        MINIMAL_RECIPE.replace("name: demo", f'name: demo\ndescription: "data of {URL}"'),
        MINIMAL_RECIPE.replace("name: demo", f"name: demo\n  broken: {URL}: x"),
        MINIMAL_RECIPE + ENDPOINT % f'"https://example.com/v1?api_key={PASSWORD}"',
        MINIMAL_RECIPE + f'container: {{image: "me:{PASSWORD}@registry.example.com/image:1"}}\n',
    ],
)
@pytest.mark.parametrize("form", ["text", "json", "github", "sarif"])
def test_diagnostics_mask_it(recipe: str, form: str, tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(recipe)
    ended = run_command("validate", "--format", form, tmp_path)
    assert ended.returncode == 1
    assert PASSWORD[:8] not in ended.stdout + ended.stderr


@pytest.mark.parametrize("path", ["endpoints.judge.base_url=", ""])
def test_options_mask_it(path: str, tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(MINIMAL_RECIPE + ENDPOINT % "https://example.com")
    ended = run_command("validate", tmp_path, "--set", f"{path}{URL}")
    assert ended.returncode != 0
    assert PASSWORD not in ended.stdout + ended.stderr


@pytest.mark.parametrize("form", ["text", "json"])
def test_differences_mask_it(form: str, tmp_path: Path) -> None:
    for name, value in (("old", "none"), ("new", URL)):
        (tmp_path / name).mkdir()
        text = MINIMAL_RECIPE.replace("name: demo", f'name: demo\nvars: {{address: "{value}"}}')
        (tmp_path / name / "recipe.yaml").write_text(text)
    ended = run_command("diff", tmp_path / "old", tmp_path / "new", "--format", form)
    assert "address" in ended.stdout, ended.stderr
    assert PASSWORD[:8] not in ended.stdout + ended.stderr


def test_a_url_without_a_password_is_not_changed(tmp_path: Path) -> None:
    for text in ("https://example.com:8000/a@b", "mail me@example.com", "ssh://git@example.com/a", "a://b"):
        assert mask_url_passwords(text) == text
        assert url_passwords(text) == []
    (tmp_path / "recipe.yaml").write_text(
        MINIMAL_RECIPE + '  fetch: {script: [curl, "https://example.com:8000/a@b"], network: true}\n'
    )
    assert run_command("validate", tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("see http://a:b@c/d", "see http://a:***@c/d"),
        ("https://token123@github.com/x", "https://***@github.com/x"),
        ("postgres://u:p@ss@host/db", "postgres://u:***@host/db"),
        ("socks5h://u:p@h:1 and http://v:q@h", "socks5h://u:***@h:1 and http://v:***@h"),
    ],
)
def test_every_kind_of_credential_is_masked(text: str, masked: str) -> None:
    assert mask_url_passwords(text) == masked
    assert len(mask_url_passwords(text, same_length=True)) == len(text)


def test_the_log_of_a_step_masks_the_password_of_a_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://me:{PASSWORD}@proxy:8080")
    (tmp_path / "record").mkdir()
    log = tmp_path / "record" / "log"
    log.write_text(f"cannot connect to http://me:{PASSWORD}@proxy:8080\n")
    mask_secrets(tmp_path, [])
    assert log.read_text() == f"cannot connect to http://me:{'*' * len(PASSWORD)}@proxy:8080\n"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("https://x.com/v1?a=1&access_token=abc&b=2", "https://x.com/v1?a=1&access_token=***&b=2"),
        ("?sig=abc#top", "?sig=***#top"),
        ("me:abc@registry.example.com:5000/image", "me:***@registry.example.com:5000/image"),
        ("vllm/vllm-openai:v0.11@sha256:0123", "vllm/vllm-openai:v0.11@sha256:0123"),
        ("registry.example.com/image:1@sha256:0123", "registry.example.com/image:1@sha256:0123"),
        ("mail: me@example.com/x", "mail: me@example.com/x"),
        ("a key=value and x = 1", "a key=value and x = 1"),
        ("if a ?key: b", "if a ?key: b"),
    ],
)
def test_keys_in_queries_and_credentials_without_a_scheme(text: str, masked: str) -> None:
    assert mask_url_passwords(text) == masked
    assert len(mask_url_passwords(text, same_length=True)) == len(text)
    assert url_passwords(text) == []
