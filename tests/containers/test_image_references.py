"""Valid image references of recipes."""

import pytest

from posttrain.compiler.checks.container_image import UNPINNED_IMAGE
from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.pipeline import compile_recipe
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG

DIGEST = "sha256:" + "0123456789abcdef" * 4


def compile_image(image: str) -> list[tuple[str, str]]:
    text = minimal_recipe(("{eval: sft,", f'{{eval: sft, container: {{image: "{image}"}},'))
    source = SourceFile("recipe.yaml", text.encode())
    outcome = compile_recipe(CompileRequest(source=source, catalog=CATALOG, read=lambda _: None))
    return [(d.code, d.message) for d in outcome.diagnostics]


@pytest.mark.parametrize("name", ["posttrain", "vllm/vllm-openai", "localhost:5000/a/b_c", "ghcr.io/x/y-z"])
def test_a_name_with_its_digest_is_taken(name: str) -> None:
    assert compile_image(f"{name}@{DIGEST}") == []


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ("posttrain", "has no digest"),
        ("localhost:5000/posttrain:1", "has no digest"),
        ("posttrain@sha256:abc", "is not a digest"),
        (f"posttrain@{DIGEST.upper()}", "is not a digest"),
        (f"posttrain:1@{DIGEST}", "has a tag and a digest"),
        (f"Posttrain@{DIGEST}", "is not an image name"),
        (f"@{DIGEST}", "is not an image name"),
    ],
)
def test_any_other_is_refused(image: str, message: str) -> None:
    ((code, text),) = compile_image(image)
    assert code == UNPINNED_IMAGE.id
    assert message in text
