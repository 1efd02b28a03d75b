"""Artifacts that anyone can have written: paths, sizes, types and names are checked before a download."""

import json
from typing import Any

import pytest

from posttrain.runtime.artifacts.artifact_paths import check_paths
from posttrain.runtime.artifacts.media_types import RECIPE_ARTIFACT, RECIPE_CONFIG, RECIPE_FILE
from posttrain.runtime.artifacts.recipe_artifact import parse_recipe_manifest, with_config
from posttrain.runtime.registry.oci_manifest import TITLE
from posttrain.runtime.registry.registry_errors import ContentError

DIGEST = "sha256:" + "0" * 64
GOOD = ["recipe.yaml", "data/rows.jsonl", "..data", ".hidden", "name with spaces.txt", "ä.txt", "a/b/c"]


def test_ordinary_paths_are_accepted() -> None:
    check_paths(GOOD)


@pytest.mark.parametrize(
    ("path", "cause"),
    [
        ("", "has no name"),
        ("/etc/passwd", "is an absolute path"),
        ("C:/windows", "is an absolute path"),
        ("../up", "leaves its folder"),
        ("a/../../up", "leaves its folder"),
        ("a\\..\\up", "contains a backslash"),
        ("stream:hidden", "contains a colon"),
        ("a\x00b", "not printable"),
        ("a\x1b[31m", "not printable"),
        ("a\u202eb", "not printable"),
        ("a//b", "has an empty part"),
        ("./a", "has an empty part"),
        ("a/", "has an empty part"),
        ("a" * 256, "is too long"),
        ("a/" * 600 + "b", "is too long"),
        (".git/hooks/post-checkout", "reserved name"),
        ("sub/.GIT/config", "reserved name"),
        ("GIT~1/config", "reserved name"),
        (".recipe/store", "reserved name"),
        (".pulled.json", "reserved name"),
        ("sub/.pulled.JSON/x", "reserved name"),
        ("name. ", "ends with a dot or a space"),
    ],
)
def test_a_hostile_path_is_refused(path: str, cause: str) -> None:
    with pytest.raises(ContentError, match=cause):
        check_paths(["recipe.yaml", path])


@pytest.mark.parametrize(
    ("paths", "cause"),
    [
        (["a", "a"], "twice"),
        (["Data.txt", "data.txt"], "the same on some systems"),
        (["caf\u00e9", "cafe\u0301"], "the same on some systems"),
        (["a", "a/b"], "as a file and as a folder"),
        (["A/b", "a"], "as a file and as a folder"),
    ],
)
def test_paths_that_collide_are_refused(paths: list[str], cause: str) -> None:
    with pytest.raises(ContentError, match=cause):
        check_paths(paths)


def layer(title: str, **fields: Any) -> dict[str, Any]:
    return {
        "mediaType": RECIPE_FILE,
        "digest": DIGEST,
        "size": 10,
        "annotations": {TITLE: title},
        **fields,
    }


def manifest(layers: Any, **fields: Any) -> bytes:
    config = {"mediaType": RECIPE_CONFIG, "digest": DIGEST, "size": 10}
    whole = {"schemaVersion": 2, "artifactType": RECIPE_ARTIFACT, "config": config, "layers": layers}
    return json.dumps({**whole, **fields}).encode()


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"not json", "not valid"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"layers": [], "layers": []}', "not valid"),
        (manifest("none"), "not an artifact"),
        (manifest([{}]), "a descriptor"),
        (manifest([layer("a", size=-1)]), "a descriptor"),
        (manifest([layer("a", size=True)]), "a descriptor"),
        (manifest([layer("a", digest="md5:00")]), "a descriptor"),
        (manifest([layer("a", annotations={TITLE: 3})]), "are not texts"),
        (manifest([layer("a", annotations={})]), "has no name"),
        (manifest([layer("../a")]), "leaves its folder"),
        (manifest([layer(".posttrain/config.json")]), "has a reserved name"),
        (manifest([layer(f"f{n}") for n in range(2001)]), "more than 2000"),
        (manifest([{"mediaType": RECIPE_FILE, "digest": DIGEST, "size": 1}] * 10_001), "more than 10000"),
        (manifest([layer("recipe.yaml", size=(4 << 20) + 1)]), "larger than 4 MiB"),
        (manifest([layer("a.bin", size=1 << 40)]), "more than 1 MiB"),
        (manifest([layer("a", mediaType="application/vnd.oci.image.layer.v1.tar")]), "which no file of a"),
        (manifest([layer("a")], artifactType="application/vnd.example"), "is no recipe"),
        (manifest([layer("a")], mediaType="application/vnd.oci.image.index.v1+json"), "not an artifact"),
        (manifest([layer("a")], config=layer("a")), "is not that of a recipe"),
    ],
)
def test_a_hostile_manifest_is_refused(data: bytes, cause: str) -> None:
    with pytest.raises(ContentError, match=cause):
        parse_recipe_manifest(data, 1 << 20)


@pytest.mark.parametrize(
    ("config", "cause"),
    [
        (b"{", "not valid"),
        (b'{"format": 2, "recipe": "recipe.yaml"}', "newer release"),
        (b'{"format": 1, "recipe": "../recipe.yaml"}', "names no recipe"),
        (b'{"format": 1}', "names no recipe"),
        (b'{"format": 1, "recipe": ["recipe.yaml"]}', "names no recipe"),
    ],
)
def test_a_hostile_configuration_is_refused(config: bytes, cause: str) -> None:
    contents, _ = parse_recipe_manifest(manifest([layer("recipe.yaml")]), 1 << 20)
    with pytest.raises(ContentError, match=cause):
        with_config(contents, config)
